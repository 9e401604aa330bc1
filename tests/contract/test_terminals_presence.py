"""Presence: which terminals are there, by their polls; and the order that each has, in both lists of terminals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from device_scene import answered, open_desk
from nodes import two_nodes
from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock, SystemClock, rfc3339
from paydesk.core.signals import Signals
from paydesk.engine.device import gateway, presence
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.device.presence import Sightings
from paydesk.engine.terminals import handlers, store
from paydesk.engine.terminals.presence import presence_of, record
from paydesk.platform.settings import Settings
from paydesk.platform.storage import mark
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction
from recording_database import RecordingDatabase
from service import Reply, Service, Terminal, running
from virtual_scene import create, playing
from waiting import until_found


class Monotonic:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return its time."""
        return self.now


async def listed(service: Service, terminal: Terminal, token: str = "") -> dict[str, Any]:
    """Return the terminal as the application's list shows it."""
    reply = await service.request("GET", "/terminals/v1/list", token=token)
    assert reply.status == 200, reply
    found: dict[str, Any] = next(one for one in reply.body["data"]["terminals"] if one["id"] == terminal.id)
    return found


async def until(is_so: Callable[[dict[str, Any]], bool], service: Service, terminal: Terminal) -> dict[str, Any]:
    """Return the terminal once the list shows it so."""

    async def find() -> dict[str, Any] | None:
        shown = await listed(service, terminal)
        return shown if is_so(shown) else None

    found = await until_found(find)
    assert found is not None
    return found


async def set_last_seen(service: Service, terminal: Terminal, age_seconds: float) -> None:
    """Make the last sign of life so old, by the database's clock."""
    await service.database.write(
        lambda tx: tx.run("UPDATE terminals SET last_seen_ms = NULL WHERE terminal_id = $1", terminal.id)
    )
    ages_ms = {terminal.id: (service.seller_id, int(age_seconds * 1000))}
    assert await service.database.write(lambda tx: record(tx, ages_ms)) == {terminal.id}


@pytest.mark.parametrize(
    ("age_seconds", "presence"),
    [(None, "offline"), (0, "online"), (45, "online"), (45.001, "degraded"), (120, "degraded"), (120.001, "offline")],
)
def test_presence_follows_from_the_age_of_the_last_sign_of_life(age_seconds: float | None, presence: str) -> None:
    """Online up to 45 s, degraded up to 120 s, then offline; a terminal that was never seen is offline."""
    assert presence_of(None if age_seconds is None else int(age_seconds * 1000)) == presence


async def test_both_lists_show_presence(service: Service) -> None:
    """A terminal that was never seen has no `last_seen_date`."""
    terminal, one = await service.terminal(), await operator(service)
    shown = await listed(service, terminal)
    assert (shown["presence"], "last_seen_date" in shown, "current_order" in shown) == ("offline", False, False)
    for age_seconds, expected in ((10, "online"), (60, "degraded"), (200, "offline")):
        await set_last_seen(service, terminal, age_seconds)
        shown = await listed(service, terminal)
        assert shown["presence"] == expected
        by_operator = (await one.did("GET", "terminals"))["data"][0]
        assert (by_operator["presence"], by_operator["last_seen_date"]) == (expected, shown["last_seen_date"])


@pytest.mark.on_postgres
async def test_status_is_inactive_without_a_valid_device_token(service: Service) -> None:
    """Typed clients read `active` and `inactive` in `status`; presence, which changes by itself, stands beside it."""
    terminal, owner = await service.terminal(), await operator(service)

    async def statuses() -> set[str]:
        by_operator = await owner.did("GET", f"terminals/{terminal.id}")
        names = list(by_operator)
        assert names.index("status") + 1 == names.index("presence")
        found = {one: (await owner.did("GET", f"terminals?status={one}"))["data"] for one in ("active", "inactive")}
        filtered = [status for status, terminals in found.items() if terminals]
        return {(await listed(service, terminal))["status"], by_operator["status"], *filtered}

    assert await statuses() == {"active"}
    await owner.did("POST", f"terminals/{terminal.id}/revoke")
    assert await statuses() == {"inactive"}
    assert await owner.refused("GET", "terminals?status=online") == (400, "property_value")


@pytest.mark.on_postgres
async def test_a_poll_makes_a_terminal_online_at_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is still open, and long before presence is written the next time."""
    monkeypatch.setattr(presence, "WRITE_SECONDS", 3600.0)
    async with running(database) as service:
        terminal = await service.terminal()
        device = await service.device(terminal)
        poll = asyncio.create_task(device.next(wait=50))
        shown = await until(lambda shown: shown["presence"] == "online", service, terminal)
        assert shown["last_seen_date"].endswith("Z")
        assert not poll.done()
        poll.cancel()


async def test_a_refused_poll_is_no_sign_of_life(service: Service) -> None:
    """A poll of a session that is not the newest may come from another device."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    await service.device(terminal)
    assert (await device.next(wait=0)).code == "stale_session"
    # All that is due is written at once.
    other = await service.terminal()
    await (await service.device(other)).next(wait=0)
    await until(lambda shown: shown["presence"] == "online", service, other)
    assert (await listed(service, terminal))["presence"] == "offline"


async def move(service: Service, desk: Operator, **change: Any) -> Reply:
    """Move the clock of development."""
    return await service.request("POST", "/dev/clock", change, token=desk.token, key=None)


@pytest.mark.on_postgres
async def test_presence_follows_the_clock_of_development(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent terminal is degraded, then offline, in the filter too; one that polls is online throughout."""
    monkeypatch.setattr(presence, "WRITE_SECONDS", 3600.0)
    clock = MovableClock()
    async with running(database, clock=clock, development=True) as service:
        desk, silent, polling = await operator(service), await service.terminal(), await service.terminal()
        poll = asyncio.create_task((await service.device(polling)).next(wait=50))
        await (await service.device(silent)).next(wait=0)
        for terminal in (silent, polling):
            await until(lambda shown: shown["presence"] == "online", service, terminal)
        for by, status in (("46s", "degraded"), ("75s", "offline")):
            before_ms = clock.now_ms()
            assert (await move(service, desk, advance=by)).status == 200
            shown = [(await listed(service, terminal))["presence"] for terminal in (silent, polling)]
            assert shown == [status, "online"]
            found = (await desk.did("GET", f"terminals?presence={status}"))["data"]
            assert [one["id"] for one in found] == [silent.id]
        assert (await listed(service, polling))["last_seen_date"] >= rfc3339(before_ms + 75_000)
        assert not poll.done()
        await (await service.device(silent)).next(wait=0)
        await until(lambda shown: shown["presence"] == "online", service, silent)
        poll.cancel()


async def test_a_terminal_that_is_switched_off_is_silent_at_once(database: Database) -> None:
    """By the clock of development: its poll, whose connection was closed, does not count when the clock moves."""
    clock = MovableClock()
    async with playing(database, clock=clock) as service:
        desk, virtual = await operator(service), await create(service)
        await service.polls(virtual.terminal)
        await virtual.act("power_off")

        async def is_silent() -> bool:
            assert (await move(service, desk, advance="121s")).status == 200
            return bool((await listed(service, virtual.terminal))["presence"] == "offline")

        await until_found(is_silent)
        # The end of the request, much later, is no sign of life either.
        assert service.shared.objects[Gateway].sightings.polls_open(virtual.id) == 0


async def test_a_closed_poll_is_closed_once() -> None:
    """Its request ends later, and counts nothing then."""
    terminals = gateway.Gateway(None, Monotonic())
    closed, polling = terminals.open(1, "M__1"), terminals.open(1, "M__2")
    closed.disconnected, polling.disconnected = lambda: True, lambda: False
    for poll in (closed, polling):
        terminals.begin(poll)
    terminals.close_disconnected()
    assert [terminals.sightings.polls_open(poll.terminal_id) for poll in (closed, polling)] == [0, 1]
    assert not terminals.begin(closed)
    for poll in (closed, polling):
        terminals.close(poll)
    assert [terminals.sightings.polls_open(poll.terminal_id) for poll in (closed, polling)] == [0, 0]


@pytest.mark.on_postgres
async def test_clock_goes_back_by_a_reset_alone(database: Database) -> None:
    """With orders or tokens it is refused and names the command that removes them; a terminal stays online."""
    clock = MovableClock()
    async with running(database, clock=clock, development=True) as service:
        desk, terminal = await operator(service), await service.terminal()
        poll = asyncio.create_task((await service.device(terminal)).next(wait=50))
        assert (await move(service, desk, advance="3h")).status == 200
        assert (await service.create(await service.terminal())).status == 201
        refused = await move(service, desk, reset=True)
        assert (refused.status, refused.code) == (409, "in_use")
        assert "orders, idempotency keys and tokens" in refused.details[0]
        assert "`paydesk reset`" in refused.details[0]
        assert clock.offset_ms >= 10_800_000
        assert (await service.request("POST", "/dev/reset", {}, token=desk.token, key=None)).status == 204
        moved = await move(service, desk, reset=True)
        assert (moved.status, moved.body["frozen"], round(moved.body["offset_seconds"])) == (200, False, 0)
        assert (clock.offset_ms, clock.frozen_ms) == (0, None)
        assert await database.read(mark.moved_clock) == (0, None)
        shown = await desk.did("GET", f"terminals/{terminal.id}")
        assert shown["presence"] == "online"
        assert rfc3339(SystemClock().now_ms() - 60_000) < shown["last_seen_date"] <= rfc3339(SystemClock().now_ms())
        poll.cancel()


@pytest.mark.on_postgres
async def test_the_list_shows_the_current_order(service: Service) -> None:
    """With its status and since when it has it; none after its end."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    order = (await service.create(terminal)).body
    shown = (await listed(service, terminal))["current_order"]
    assert shown == {"id": order["id"], "status": "created", "since_date": order["created_date"]}
    assert (await device.ack(order["id"][3:])).status == 200
    events = (await (one := await operator(service)).did("GET", f"orders/{order['id']}"))["events"]
    shown = (await listed(service, terminal))["current_order"]
    assert shown == {"id": order["id"], "status": "at_terminal", "since_date": events[1]["created_date"]}
    headers = {"X-Allow-Cancelable-Status": "at_terminal"}
    assert (await service.cancel(order["id"], headers=headers)).status == 202
    assert (await one.did("GET", "terminals"))["data"][0]["current_order"] == shown
    assert await device.post(f"/leases/{order['id'][3:]}/cancel-result", {"boot_id": device.boot_id, "done": True})
    assert "current_order" not in await listed(service, terminal)


async def test_the_current_order_has_the_extended_label(database: Database) -> None:
    """As the order's own status has."""
    settings = Settings(order_statuses="extended")
    async with running(database, settings=settings, workers=False) as service:
        terminal = await service.terminal()
        device = await service.device(terminal)
        order_id = (await service.create(terminal)).body["id"]
        assert (await device.ack(order_id[3:])).status == 200
        assert (await device.authorizing(order_id[3:])).status == 200
        assert (await device.result(order_id[3:], outcome="unknown")).status == 200
        assert (await listed(service, terminal))["current_order"]["status"] == "action_required"


async def test_both_nodes_show_the_same(database: Database, database_url: str) -> None:
    """A terminal polls one of them; on the other the list has it too."""
    async with two_nodes(database, database_url) as (first, second):
        terminal = await first.terminal()
        device = await first.device(terminal)
        poll = asyncio.create_task(device.next(wait=30))
        await until(lambda shown: shown["presence"] == "online", second, terminal)
        one, other = await listed(first, terminal), await listed(second, terminal)
        assert one == other
        poll.cancel()


async def test_a_stopped_node_has_written_the_last_sign_of_life(database: Database) -> None:
    """It ends the polls that are open, so they count up to its stop."""
    async with running(database) as service:
        terminal = await service.terminal()
        device = await service.device(terminal)
        poll = asyncio.create_task(device.next(wait=30))
        await until(lambda shown: shown["presence"] == "online", service, terminal)
        await set_last_seen(service, terminal, 40)
        before = (await listed(service, terminal))["last_seen_date"]
    await asyncio.gather(poll, return_exceptions=True)
    (row,) = await database.read(lambda tx: tx.all("SELECT last_seen_ms FROM terminals"))
    assert rfc3339(row[0]) > before


async def test_a_poll_writes_nothing(database: Database) -> None:
    """Neither while it waits nor when it ends: one read, and one statement of the worker for all terminals."""
    desk = await open_desk(database)
    answered(await desk.hello())
    recording = RecordingDatabase(database)
    desk.database = recording
    for _ in range(5):
        await desk.next()
    assert [sql.split(None, 1)[0] for sql in recording.asked] == ["SELECT"]
    assert await desk.gateway.sightings.write(recording) == 1
    assert [sql.split(None, 1)[0] for sql in recording.asked] == ["SELECT", "UPDATE"]


async def test_a_write_during_a_forgetting_leaves_the_terminal_offline(database: Database) -> None:
    """It chooses the terminals once the other has ended."""
    desk, monotonic = await open_desk(database), Monotonic()
    sightings = Sightings(None, monotonic)
    sightings.began(desk.seller_id, desk.terminal_id, monotonic())
    forgetting = sightings.forget(database, desk.seller_id, desk.terminal_id)
    _, written = await asyncio.gather(forgetting, sightings.write(database, is_last=True))
    assert written == 0


async def test_2000_open_polls_are_one_statement_each_15_s(database: Database) -> None:
    """A minute has four of them, and one more for the terminals' return; each has every terminal."""
    desk, monotonic = await open_desk(database), Monotonic()

    async def work(tx: Transaction) -> list[str]:
        made = []
        for number in range(2000):
            terminal = await store.create(
                tx,
                seller_id=desk.seller_id,
                pos_id=desk.pos_id,
                terminal_id=f"NEWLAND_N950__{number:06}",
                live=True,
                now_ms=0,
            )
            assert terminal is not None
            made.append(terminal.terminal_id)
        return made

    sightings, counted = Sightings(None, monotonic), []
    for terminal_id in await database.write(work):
        sightings.began(desk.seller_id, terminal_id, monotonic())
    for _ in range(61):
        count = await sightings.write(database) if sightings.is_urgent or monotonic.now % 15 == 10 else 0
        counted += [count] if count else []
        monotonic.now += 1
    assert counted == [2000] * 5
    rows = await database.read(lambda tx: tx.all("SELECT COUNT(*) FROM terminals WHERE last_seen_ms IS NOT NULL"))
    assert rows[0][0] == 2000


async def test_a_locked_terminal_is_written_the_next_time(postgres_url: str) -> None:
    """The write waits for no other transaction, and no other waits long for it."""
    database = await open_database(postgres_url)
    desk, monotonic = await open_desk(database), Monotonic()
    other = await desk.terminal(live=True)
    connection = await asyncpg.connect(postgres_url)
    try:
        sightings = Sightings(None, monotonic)
        for terminal_id in (desk.terminal_id, other):
            sightings.began(desk.seller_id, terminal_id, monotonic())
        async with connection.transaction():
            await connection.execute("SELECT 1 FROM terminals WHERE terminal_id = $1 FOR SHARE", other)
            assert await sightings.write(database) == 2
            rows = await desk.rows("SELECT terminal_id FROM terminals WHERE last_seen_ms IS NOT NULL")
            assert [row[0] for row in rows] == [desk.terminal_id]
            assert sightings.is_urgent, "it was never seen, so it is written at once"
        monotonic.now += 1
        assert await sightings.write(database) == 1
        assert len(await desk.rows("SELECT 1 FROM terminals WHERE last_seen_ms IS NOT NULL")) == 2
        assert not sightings.is_urgent
    finally:
        await connection.close()
        await database.close()


async def test_last_seen_never_goes_back(database: Database) -> None:
    """Another node may have seen the terminal later."""
    desk = await open_desk(database)
    for age_ms in (0, 60_000):
        await database.write(lambda tx, age_ms=age_ms: record(tx, {desk.terminal_id: (desk.seller_id, age_ms)}))  # type: ignore[misc]
    (shown,) = answered(await desk.handle(handlers.list_terminals))["data"]["terminals"]
    assert shown["presence"] == "online"


async def test_what_a_node_remembers_is_bounded(database: Database) -> None:
    """Two minutes after its last poll a terminal is forgotten, a deleted one too, which is not written each second."""
    desk, monotonic = await open_desk(database), Monotonic()
    sightings = Sightings(Signals(), monotonic)
    for terminal_id in (desk.terminal_id, "DELETED__1"):
        sightings.ended(sightings.began(desk.seller_id, terminal_id, monotonic()))
    for _ in range(10):
        await sightings.write(database)
        assert not sightings.is_urgent
        monotonic.now += 15
    assert sightings._seen == {}


async def test_a_poll_whose_memory_was_evicted_is_counted_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its terminal would be online for ever."""
    monkeypatch.setattr(gateway, "TERMINALS_MAX", 1)
    monotonic = Monotonic()
    terminals = gateway.Gateway(None, monotonic)
    polls = [terminals.open(1, terminal_id) for terminal_id in ("M__1", "M__2")]
    for poll in (*polls, polls[0]):
        terminals.begin(poll)
    for poll in polls:
        terminals.close(poll)
    monotonic.now += 200
    await terminals.sightings.write(database)
    assert not terminals.sightings._seen


async def test_a_terminal_that_moved_to_another_seller_is_written_at_once(database: Database) -> None:
    """It is a new terminal there, however recently it was seen."""
    desk, monotonic = await open_desk(database), Monotonic()
    sightings = Sightings(None, monotonic)
    before = sightings.began(desk.seller_id + 1, desk.terminal_id, monotonic())
    await sightings.write(database)
    monotonic.now += 1
    sightings.began(desk.seller_id, desk.terminal_id, monotonic())
    sightings.ended(before)
    assert sightings.is_urgent
    await sightings.write(database)
    (shown,) = answered(await desk.handle(handlers.list_terminals))["data"]["terminals"]
    assert shown["presence"] == "online"


async def test_a_terminal_is_written_once_in_15_s(database: Database) -> None:
    """However often it polls; at once if it was silent."""
    desk, monotonic = await open_desk(database), Monotonic()
    sightings, written = Sightings(None, monotonic), []
    for _ in range(120):
        seen = sightings.began(desk.seller_id, desk.terminal_id, monotonic())
        if await sightings.write(database):
            written.append(monotonic.now)
        monotonic.now += 0.5
        sightings.ended(seen)
    assert written == [1000, 1015, 1030, 1045]
    monotonic.now += 60
    assert await sightings.write(database) == 1
    monotonic.now += 46
    assert not sightings.is_urgent
    sightings.began(desk.seller_id, desk.terminal_id, monotonic())
    assert sightings.is_urgent
