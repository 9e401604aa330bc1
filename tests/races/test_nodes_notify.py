"""What happens on one node reaches who waits on another: at once by a hint, and without the hint all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from console_scene import console
from cut_wire import Cut, CutWire
from event_loops import passes_until
from moved_time import advance
from nodes import time_passes, two_nodes
from oauth_scene import authorizations_of
from operator_calls import operator
from paydesk.core.signals import EVERYTHING, Signals
from paydesk.engine.device import gateway
from paydesk.engine.device.polling import missed_wakeups
from paydesk.engine.oauth import authorizations, store
from paydesk.engine.oauth.clients import applications
from paydesk.engine.sellers import store as sellers
from paydesk.engine.terminals import store as terminals
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database
from paydesk.platform.storage.postgres import notify as postgres_notify
from paydesk.platform.storage.postgres.notify import Relay
from service import Device, Reply, Service, Terminal, running
from waiting import until as until_true
from waiting import until_found

NEVER_SECONDS = 600.0
"""Longer than a test: what is set to it does not help, so that something else must."""

MEMORY_SECONDS_MAX = 5.0
"""So long may a node that hears nothing take a revoked token for good."""

END_RELAYS = """
SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = 'paydesk notifications'"""

WHAT_ENDS = ("family", "authorization", "seller", "application")
"""What can end, or suspend, what an access token is good for."""

Nodes = tuple[Service, Service]


@pytest.fixture
def hints_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker that looks without a hint is not there."""
    monkeypatch.setattr(missed_wakeups, "SCAN_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr(missed_wakeups, "SCAN_CONNECTED_SECONDS", NEVER_SECONDS)


@pytest.fixture
def moved_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause after a scan does not follow its duration, which has the time that the test moved meanwhile."""
    monkeypatch.setattr(missed_wakeups, "PAUSE_RATIO", 0)


@pytest.fixture
async def wire(postgres_url: str, tmp_path: Path) -> AsyncIterator[CutWire]:
    """A wire to the database that the test can cut."""
    async with CutWire(postgres_url, tmp_path).laid() as wire:
        yield wire


@pytest.fixture
async def opened(postgres_url: str) -> AsyncIterator[Database]:
    """A fresh PostgreSQL database, opened."""
    database = await open_database(postgres_url)
    yield database
    await database.close()


async def until(come: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it has come."""
    await until_found(come)


async def waits(nodes: Nodes, terminal_id: str) -> None:
    """Wait until the terminal's poll waits on the second node."""

    async def is_there() -> bool:
        return f"terminal:{terminal_id}" in nodes[1].database.signals.waited_on()

    await until(is_there)


async def polls_elsewhere(nodes: Nodes) -> tuple[Device, asyncio.Task[Reply]]:
    """A terminal whose poll waits on the second node, and knows its mode already."""
    device = await nodes[1].device(await nodes[1].terminal())
    poll = asyncio.create_task(device.next(wait=50))
    await waits(nodes, device.terminal.id)
    return device, poll


async def order_comes(nodes: Nodes, device: Device, poll: asyncio.Task[Reply], *, passes: bool = False) -> None:
    """An order made on the first node is what the poll brings, at once or when time passes."""
    made = await nodes[0].create(device.terminal)
    assert made.status == 201, made
    if passes:
        await time_passes(nodes, partial(is_answered, poll))
    brought = await poll
    assert brought.body["type"] == "order"
    assert brought.body["order"]["id"] == made.body["id"]


async def is_answered(poll: asyncio.Task[Reply]) -> bool:
    """Whether it is."""
    return poll.done()


@pytest.mark.usefixtures("hints_alone")
async def test_an_order_reaches_a_terminal_on_another_node(opened: Database, postgres_url: str) -> None:
    """By the hint alone."""
    async with two_nodes(opened, postgres_url) as nodes:
        await order_comes(nodes, *await polls_elsewhere(nodes))


@pytest.mark.usefixtures("moved_time_alone")
async def test_an_order_reaches_another_node_without_hints(opened: Database, postgres_url: str, tmp_path: Path) -> None:
    """The wire for wakes leads nowhere from the beginning."""
    nowhere = f"postgresql://paydesk@/paydesk?host={tmp_path}"
    async with two_nodes(opened, postgres_url, wakes_url=nowhere) as nodes:
        await order_comes(nodes, *await polls_elsewhere(nodes), passes=True)


@pytest.mark.usefixtures("moved_time_alone")
async def test_a_cancel_reaches_another_node_without_hints(opened: Database, postgres_url: str, tmp_path: Path) -> None:
    """The terminal is asked to give the order back."""
    nowhere = f"postgresql://paydesk@/paydesk?host={tmp_path}"
    async with two_nodes(opened, postgres_url, wakes_url=nowhere) as nodes:
        device, poll = await polls_elsewhere(nodes)
        await order_comes(nodes, device, poll, passes=True)
        lease_id = poll.result().body["lease_id"]
        assert (await device.ack(lease_id)).status == 200
        poll = asyncio.create_task(device.next(wait=50))
        await waits(nodes, device.terminal.id)
        asked = await nodes[0].cancel(f"ORD{lease_id}", headers={"X-Allow-Cancelable-Status": "at_terminal"})
        assert asked.status == 202, asked
        await time_passes(nodes, partial(is_answered, poll))
        assert (await poll).body == {"type": "cancel", "lease_id": lease_id}


@pytest.mark.usefixtures("hints_alone")
async def test_the_newest_poll_wins_on_any_node(
    opened: Database, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older one is answered 204 at once; the newer one gets the order."""
    monkeypatch.setattr(gateway, "SETTLED_SECONDS", 0)
    async with two_nodes(opened, postgres_url) as nodes:
        device, older = await polls_elsewhere(nodes)
        moved = replace(device, service=nodes[0])
        assert (await moved.next(wait=0)).status == 200, "the mode, which this node has not sent yet"
        assert (await older).status == 204
        await order_comes(nodes, moved, asyncio.create_task(moved.next(wait=50)))


async def test_a_new_poll_is_not_ended_by_an_earlier_one_on_another_node() -> None:
    """A hint may be of an earlier poll: two nodes must not end each other's polls in turn."""
    now, signals = iter((100.0, 100.5, 102.0, 102.0)), Signals()
    terminals_polling = gateway.Gateway(signals, lambda: next(now))
    first = terminals_polling.open(1, "T")
    assert terminals_polling.begin(first), "its first poll here: others are notified"
    signals.notify_local(("moved:T",))
    assert (first.ended, terminals_polling.begin(first)) == (False, False)
    signals.notify_local(("moved:T",))
    assert (first.ended, terminals_polling.begin(first)) == (True, False), "what was ended stays so"
    back = terminals_polling.open(1, "T")
    assert terminals_polling.begin(back), "it has come back: others are notified"


async def test_of_two_polls_the_later_one_wins() -> None:
    """Also where the earlier one was slower to show its session."""
    terminals_polling = gateway.Gateway()
    earlier, later = terminals_polling.open(1, "T"), terminals_polling.open(1, "T")
    terminals_polling.begin(later)
    assert not terminals_polling.begin(earlier)
    assert earlier.ended
    assert not later.ended


async def accepts(service: Service) -> bool:
    """Whether the node takes the live access token; orders are made with the other one."""
    reply = await service.request("GET", "/terminals/v1/list", token=service.live_access_token)
    return reply.status == 200


@pytest.fixture
def long_memory() -> Settings:
    """A bearer is remembered for longer than the test takes."""
    return Settings().model_copy(update={"bearer_cache_seconds": NEVER_SECONDS})


@pytest.mark.parametrize("what", WHAT_ENDS)
async def test_a_token_revoked_on_one_node_is_refused_on_the_other(
    opened: Database, postgres_url: str, long_memory: Settings, what: str
) -> None:
    """A token family, a consent withdrawn, a seller or an application suspended: by the hint, before memory ends."""
    async with two_nodes(opened, postgres_url, settings=long_memory) as nodes:
        assert await accepts(nodes[1])
        await _revoke(nodes[0], what)
        await until(lambda: _refuses(nodes[1]))


async def _revoke(service: Service, what: str) -> None:
    now_ms = service.clock.now_ms()
    match what:
        case "family":
            family = await service.database.read(
                lambda tx: tx.one("SELECT family_id FROM token_families WHERE live = 1")
            )
            assert family is not None
            await service.database.write(
                lambda tx: store.revoke_family(tx, service.seller_id, family[0], now_ms, "test")
            )
        case "authorization":
            for found in await service.database.read(lambda tx: authorizations_of(tx, service.seller_id)):
                work = partial(
                    authorizations.withdraw,
                    seller_id=service.seller_id,
                    authorization_id=found.authorization_id,
                    now_ms=now_ms,
                )
                assert await service.database.write(work)
        case "seller":
            await service.database.write(lambda tx: sellers.suspend(tx, service.seller_id, now_ms))
        case "application":
            application_id = service.scene.application.application_id
            await service.database.write(lambda tx: applications.suspend(tx, application_id, now_ms))


async def _refuses(service: Service) -> bool:
    return not await accepts(service)


async def test_a_terminal_revoked_on_one_node_is_refused_on_the_other(
    opened: Database, postgres_url: str, long_memory: Settings
) -> None:
    """The poll that waits there ends with it, at once."""
    async with two_nodes(opened, postgres_url, settings=long_memory) as nodes:
        device, poll = await polls_elsewhere(nodes)
        await _revoke_device(nodes[0], device)
        assert (await poll).status == 401
        assert (await device.next(wait=0)).status == 401


@pytest.mark.usefixtures("moved_time_alone")
async def test_a_revoked_terminal_is_offered_nothing_even_without_hints(
    opened: Database, postgres_url: str, tmp_path: Path, long_memory: Settings
) -> None:
    """The query for an order also checks the token."""
    nowhere = f"postgresql://paydesk@/paydesk?host={tmp_path}"
    async with two_nodes(opened, postgres_url, settings=long_memory, wakes_url=nowhere) as nodes:
        device, poll = await polls_elsewhere(nodes)
        await _revoke_device(nodes[0], device)
        assert (await nodes[0].create(device.terminal)).status == 201
        await time_passes(nodes, partial(is_answered, poll))
        assert (await poll).status == 401


async def _revoke_device(service: Service, device: Device) -> None:
    now_ms = service.clock.now_ms()
    await service.database.write(lambda tx: terminals.revoke_tokens(tx, service.seller_id, device.terminal.id, now_ms))


@pytest.mark.parametrize(
    "what", [WHAT_ENDS[0], *(pytest.param(other, marks=pytest.mark.slow) for other in WHAT_ENDS[1:])]
)
async def test_without_hints_a_revoked_token_is_refused_after_the_cache_expires(
    opened: Database, postgres_url: str, tmp_path: Path, what: str
) -> None:
    """And memory ends after five seconds at most: as it is unless it is set otherwise."""
    nowhere = f"postgresql://paydesk@/paydesk?host={tmp_path}"
    async with two_nodes(opened, postgres_url, settings=Settings(), wakes_url=nowhere) as nodes:
        assert await accepts(nodes[1])
        await _revoke(nodes[0], what)
        advance(MEMORY_SECONDS_MAX)
        assert not await accepts(nodes[1])


@pytest.mark.parametrize("cut", ["before", "silence"])
async def test_after_a_reconnect_nothing_is_missed(
    opened: Database,
    postgres_url: str,
    wire: CutWire,
    long_memory: Settings,
    monkeypatch: pytest.MonkeyPatch,
    cut: Cut,
) -> None:
    """What was revoked while the wire was cut, or dead without a sign, is refused once it is whole again."""
    monkeypatch.setattr(postgres_notify, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(postgres_notify, "ANSWER_SECONDS_MAX", 1.0)
    monkeypatch.setattr(postgres_notify, "ALONE_HEARTBEATS", NEVER_SECONDS)
    async with two_nodes(opened, postgres_url, settings=long_memory, wakes_url=wire.url) as nodes:
        device, poll = await polls_elsewhere(nodes)
        wire.plan(cut, b"", times=1_000_000)
        await until(lambda: _is_cut(wire))
        # It may have been forgotten once more by a connection that came about just before the cut.
        assert await accepts(nodes[1])
        async with Relay(postgres_url, witness := Signals()):
            heard = await heard_by(witness)
            await _revoke(nodes[0], "family")
            await until(lambda: _is_in("family:", " ".join(heard)))
        assert await accepts(nodes[1]), "it has not heard of it"
        wire.plan(cut, b"", times=0)
        await until(lambda: _refuses(nodes[1]))
        await order_comes(nodes, device, poll)


async def _is_cut(wire: CutWire) -> bool:
    return wire.times < 1_000_000


async def heard_by(signals: Signals) -> list[str]:
    """What the node hears from now on; it is connected."""
    heard: list[str] = []
    signals.listen("", heard.append)
    await until(lambda: _is_in(EVERYTHING, heard))
    heard.clear()
    return heard


async def test_topics_are_published_once(postgres_url: str) -> None:
    """Those that matter elsewhere, many in one notification, none back to where it came from; the last ones too."""
    here, there = Signals(), Signals()
    async with Relay(postgres_url, there):
        heard = await heard_by(there)
        async with Relay(postgres_url, here):
            own = await heard_by(here)
            topics = [f"terminal:NEWLAND_N950__{number:016}" for number in range(1000)]
            here.notify([*topics, "order:ORD1", "deliveries", "clock", "stop", "sellers"])
        await until(lambda: _is_in("sellers", heard))
        assert heard == [*topics, "sellers"]
        assert own == [*topics, "order:ORD1", "deliveries", "clock", "stop", "sellers", "remote_lost"], (
            "once, by itself"
        )


async def _is_in(topic: str, heard: Collection[str]) -> bool:
    return topic in heard


async def test_too_many_topics_become_everything(postgres_url: str, tmp_path: Path) -> None:
    """What doesn't fit while the wire is cut becomes one wake of everything."""
    flood = Signals()
    async with Relay(f"postgresql://paydesk@/paydesk?host={tmp_path}", flood) as relay:
        for number in range(3 * postgres_notify.TOPICS_MAX):
            flood.notify((f"terminal:{number}",))
            assert len(relay._topics) <= postgres_notify.TOPICS_MAX
    there, here = Signals(), Signals()
    async with Relay(postgres_url, there):
        await heard_by(there)
        with there.subscribe("terminal:7") as waiter:
            async with Relay(postgres_url, here):
                here.notify(tuple(relay._topics))
            assert await waiter.wait(NEVER_SECONDS), "everybody looks again"
        assert "terminal:7" not in relay._topics, "it was among those that did not fit"


class Published:
    """What the nodes send, as a session of the database receives it of which no node hears."""

    def __init__(self, session: asyncpg.Connection) -> None:
        self.session = session
        self._payloads: list[str] = []
        self._marks = 0

    @classmethod
    @asynccontextmanager
    async def on(cls, postgres_url: str) -> AsyncIterator[Published]:
        """Listen until the end of the block."""
        published = cls(await asyncpg.connect(postgres_url))
        await published.session.add_listener(postgres_notify.CHANNEL, published._received)
        await published.session.add_listener("mark", published._marked)
        try:
            yield published
        finally:
            await published.session.close()

    def _received(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        self._payloads.append(payload)

    def _marked(self, *_: object) -> None:
        self._marks += 1

    async def until_now(self) -> list[str]:
        """Return what was sent until now, since the last call. The server keeps the order of notifications."""
        marks = self._marks
        await self.session.execute("NOTIFY mark")
        await until_true(lambda: self._marks > marks)
        payloads, self._payloads = self._payloads, []
        return payloads


async def becomes_alone(relay: Relay) -> None:
    """Let time pass until the node is alone."""
    await passes_until(lambda: relay.is_alone, postgres_notify.HEARTBEAT_SECONDS)


async def is_sent(*relays: Relay) -> None:
    """Wait until each node has sent what it has, and waits for more."""
    pending = [relay._pending for relay in relays]
    await until_true(lambda: all(event._waiters and not event.is_set() for event in pending))


async def heartbeats(published: Published, *relays: Relay) -> list[str]:
    """Let each node send its next heartbeat; return what all have sent."""
    await is_sent(*relays)
    await published.until_now()
    before = [relay._next_heartbeat for relay in relays]
    advance(postgres_notify.HEARTBEAT_SECONDS)
    await until_true(lambda: all(relay._next_heartbeat > time for relay, time in zip(relays, before, strict=True)))
    return await published.until_now()


async def test_a_lone_node_publishes_only_heartbeats(postgres_url: str) -> None:
    """As soon as it heard no other node during three of them; before that another may be there."""
    async with Published.on(postgres_url) as published, Relay(postgres_url, here := Signals()) as relay:
        await heard_by(here)
        here.notify(("terminal:1",))
        await is_sent(relay)
        assert f"{relay._node}\nterminal:1" in await published.until_now()
        await becomes_alone(relay)
        here.notify(("terminal:2",))
        assert await heartbeats(published, relay) == [relay._node]


async def test_a_node_publishes_as_long_as_another_is_there(postgres_url: str) -> None:
    """From its first message to three heartbeats after its last one, also after a pause of this process."""
    async with Published.on(postgres_url) as published, Relay(postgres_url, here := Signals()) as relay:
        await heard_by(here)
        await becomes_alone(relay)
        async with Relay(postgres_url, there := Signals()) as other:
            heard = await heard_by(there)
            await until_true(lambda: not relay.is_alone)
            for _ in range(3 * postgres_notify.ALONE_HEARTBEATS):
                assert {relay._node, other._node} <= {*await heartbeats(published, relay, other)}
                assert not relay.is_alone
            advance(100 * postgres_notify.HEARTBEAT_SECONDS)
            here.notify(("terminal:1",))
            await until(lambda: _is_in("terminal:1", heard))
        await becomes_alone(relay)
        here.notify(("terminal:2",))
        assert await heartbeats(published, relay) == [relay._node]


async def test_a_new_node_misses_nothing_before_it_is_heard_of(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for signals after its first message, and a lone node that hears this says that all may have changed."""
    on_notification, late, is_late = Relay._on_notification, list[tuple[Any, ...]](), False

    def received(relay: Relay, *received: Any) -> None:
        if is_late and relay is first and not received[-1].startswith(first._node):
            late.append(received)
        else:
            on_notification(relay, *received)

    monkeypatch.setattr(Relay, "_on_notification", received)
    async with Relay(postgres_url, here := Signals()) as first:
        await heard_by(here)
        await becomes_alone(first)
        is_late = True
        async with Relay(postgres_url, there := Signals()):
            heard = await heard_by(there)
            with there.subscribe("terminal:1"):
                here.notify(("terminal:1",))
                await until_true(lambda: bool(late))
                assert first.is_alone
                assert not heard
                is_late = False
                for payload in late:
                    on_notification(first, *payload)
                await until(lambda: _is_in("terminal:1", heard))
                assert heard == [EVERYTHING, "terminal:1"]
            here.notify(("terminal:2",))
            await until(lambda: _is_in("terminal:2", heard))


async def test_a_lone_node_that_was_disconnected_publishes_again(postgres_url: str) -> None:
    """Others may have come meanwhile, of which it heard nothing."""
    async with Published.on(postgres_url) as published, Relay(postgres_url, here := Signals()) as relay:
        await heard_by(here)
        await becomes_alone(relay)
        ended = await published.session.fetchval(END_RELAYS)
        assert ended == 1
        await until_true(lambda: not here.remote_connected)
        here.notify(("terminal:1",))
        await passes_until(lambda: here.remote_connected, 1)
        await is_sent(relay)
        assert f"{relay._node}\n{EVERYTHING}\nterminal:1" in await published.until_now()
        assert not relay.is_alone


@pytest.mark.usefixtures("hints_alone")
async def test_an_order_reaches_a_terminal_on_a_node_that_joins(opened: Database, postgres_url: str) -> None:
    """By the hint alone, though the first node was alone before."""

    async def first_is_alone() -> None:
        await becomes_alone(opened.signals.publish_remote.__self__)  # type: ignore[union-attr]

    async with two_nodes(opened, postgres_url, before_second=first_is_alone) as nodes:
        await order_comes(nodes, *await polls_elsewhere(nodes))


@pytest.mark.parametrize("count", [0, 1, 5000])
def test_payloads_have_the_maximum_size(count: int) -> None:
    """And no topic is lost between them."""
    topics = [f"terminal:NEWLAND_N950__Ü{number}" for number in range(count)]
    sent = postgres_notify.payloads("node", topics)
    assert all(len(payload.encode()) < 8000 for payload in sent)
    assert [topic for payload in sent for topic in payload.split("\n")[1:]] == topics
    assert all(payload.startswith("node") for payload in sent)
    assert len(sent) <= 1 + sum(len(topic.encode()) + 1 for topic in topics) // 7900


async def test_a_disconnected_poll_gets_no_order(opened: Database) -> None:
    """The terminal that comes back gets the order at once, not when it is offered again."""
    async with running(opened) as service:
        device = await service.device(await service.terminal())
        gone = asyncio.create_task(device.next(wait=50))
        await waits((service, service), device.terminal.id)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await service.session.get(service.base_url + "/nothing")
        made = await service.create(device.terminal)
        back = await device.next(wait=50)
        assert back.body["order"]["id"] == made.body["id"]


async def test_a_page_gets_the_hint_of_a_change_on_another_node(opened: Database, postgres_url: str) -> None:
    """Of an order, which notifies its terminal, and of an operator's change. Nothing but the hint is on its stream."""
    async with two_nodes(opened, postgres_url) as nodes:
        terminal, browser = await nodes[0].terminal(), await console(nodes[1])
        address = f"{nodes[1].base_url}/console/events"
        async with nodes[1].session.get(address, headers={"Cookie": browser.cookie}) as stream:
            assert await stream.content.readline() == b":\n"
            # The first node hints once it knows that a page is open.
            await until(lambda: _is_watched(nodes[0]))
            for change, hint in ((_order(nodes[0], terminal), terminal.id), (_audited(nodes[0]), "stores")):
                await change
                while hint.encode() not in await stream.content.readline():
                    pass


async def _is_watched(service: Service) -> bool:
    return service.database.signals.watched


async def _order(service: Service, terminal: Terminal) -> None:
    assert (await service.create(terminal)).status == 201


async def _audited(service: Service) -> None:
    await (await operator(service)).did("POST", "stores", {"seller_id": service.seller_id, "name": "Shop"})
