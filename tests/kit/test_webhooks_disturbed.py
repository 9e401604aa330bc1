"""Webhook faults as a receiver sees them, step by step, on both databases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import web

import webhooks_scene as scene
from paydesk.core.clock import MovableClock
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks import outbox
from paydesk.engine.webhooks.delivery import store
from paydesk.engine.webhooks.schemas import CONNECT_TOPIC
from paydesk.platform.jobs import Claim
from paydesk.platform.storage.database import Database
from paydesk_dev.faults import kinds as faults
from paydesk_dev.faults import store as fault_store
from paydesk_dev.faults.kinds import KINDS, Fault, FaultKind
from paydesk_dev.faults.store import Disturbed

CREATED, AT_TERMINAL, PROCESSED = "order.created", "order.at_terminal", "order.processed"


@dataclass
class Faulty:
    """A receiver whose subscription has a fault. The service's clock is stopped; `wall` is the machine's."""

    database: Database
    clock: MovableClock
    wall: MovableClock
    receiver: scene.Receiver
    worker: scene.DeliveryWorker
    subscription_id: str
    secret: Secret

    async def announce(self, order: str, version: int = 1, action: str = CREATED) -> str:
        """Insert an event, after a millisecond, and let the worker do what it can."""
        self.clock.advance(1)
        event_id = await scene.announce(self.database, self.clock.now_ms(), order, version, action)
        await scene.step(self.worker)
        return event_id

    @property
    def received(self) -> list[int]:
        """The versions that the receiver got."""
        return [got.order_and_version[1] for got in self.receiver.got]

    @property
    def retries(self) -> list[str]:
        """The values of X-Retry that the receiver got."""
        return [got.headers["X-Retry"] for got in self.receiver.got]

    def valid(self, place: int, *, at_seconds: float | None = None) -> tuple[bool, bool]:
        """Return whether the X-Signature and the webhook-signature of a received notification are valid."""
        at_seconds = self.wall.now_ms() / 1000 if at_seconds is None else at_seconds
        return scene.validity(self.secret, self.receiver.got[place], at_seconds)


async def set_fault(
    database: Database,
    subscription_id: str,
    kind: FaultKind | None,
    *,
    every: int = 1,
    delay_seconds: int | None = None,
    seed: int | None = None,
) -> None:
    """Set or clear a fault."""
    fault = None if kind is None else faults.new_fault(kind, every=every, delay_seconds=delay_seconds, seed=seed)
    await database.write(lambda tx: fault_store.set_fault(tx, subscription_id, fault))


@asynccontextmanager
async def faulty(
    database: Database,
    kind: FaultKind,
    *,
    every: int = 1,
    delay_seconds: int | None = None,
    seed: int | None = None,
    development: bool = True,
) -> AsyncIterator[Faulty]:
    """Run a receiver of a subscription with this fault."""
    clock, wall = MovableClock(), MovableClock()
    clock.freeze()
    wall.freeze()
    async with (
        scene.receiver() as receiver,
        scene.worker(database, clock, wall=wall, development=development) as worker,
    ):
        subscription_id, secret = await scene.subscribe(database, receiver.url)
        await set_fault(database, subscription_id, kind, every=every, delay_seconds=delay_seconds, seed=seed)
        yield Faulty(database, clock, wall, receiver, worker, subscription_id, secret)


async def test_late_notification_is_sent_after_the_delay_on_the_machines_clock(database: Database) -> None:
    """The service's clock is stopped. It is the first attempt, and newer versions wait for it."""
    async with faulty(database, "late", every=2, delay_seconds=30) as scenery:
        order, other = scene.order_id(), scene.order_id()
        await scenery.announce(other)
        await scenery.announce(order, 1)
        await scenery.announce(order, 2, AT_TERMINAL)
        assert [got.order_and_version for got in scenery.receiver.got] == [(other, 1)]
        scenery.wall.advance(29_000)
        assert await scene.step(scenery.worker) == 0
        scenery.wall.advance(1_001)
        assert await scene.step(scenery.worker) == 2
        assert [got.order_and_version for got in scenery.receiver.got] == [(other, 1), (order, 1), (order, 2)]
        assert set(scenery.retries) == {"0"}
        assert {one.attempts for one in await scene.deliveries(database, order)} == {1}


async def test_late_notifications_take_no_slots(database: Database) -> None:
    """However many are late, others are sent at once, also to the same receiver."""
    async with faulty(database, "late", every=40, seed=7, delay_seconds=600) as scenery:
        orders = [scene.order_id() for _ in range(80)]
        for order in orders:
            scenery.clock.advance(1)
            await scene.announce(database, scenery.clock.now_ms(), order)
        await scene.step(scenery.worker)
        assert len(scenery.receiver.got) == 78


async def test_late_notification_stays_late_after_a_restart(database: Database) -> None:
    """Its number and its hold are stored: another worker neither sends it early nor counts it again."""
    async with faulty(database, "late", delay_seconds=30) as scenery:
        order = scene.order_id()
        await scenery.announce(order)
        async with scene.worker(database, scenery.clock, wall=scenery.wall, development=True) as another:
            assert await scene.step(another) == 0
            scenery.wall.advance(30_001)
            assert await scene.step(another) == 1
        assert scenery.received == [1]


async def test_late_by_zero_seconds_is_at_once(database: Database) -> None:
    """A delay of 0 holds nothing back."""
    async with faulty(database, "late", delay_seconds=0) as scenery:
        await scenery.announce(scene.order_id())
        assert scenery.received == [1]


async def test_twice_sends_the_same_notification_two_times(database: Database) -> None:
    """Same id and body, `X-Retry` goes on, before the next version."""
    async with faulty(database, "twice", every=2) as scenery:
        order = scene.order_id()
        for version, action in enumerate((CREATED, AT_TERMINAL, PROCESSED), 1):
            await scenery.announce(order, version, action)
        assert scenery.received == [1, 2, 2, 3]
        assert scenery.retries == ["0", "0", "1", "0"]
        first, second = scenery.receiver.got[1:3]
        assert first.body == second.body
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert first.headers["X-Request-Id"] == second.headers["X-Request-Id"]
        assert scenery.valid(1) == scenery.valid(2) == (True, True)
        doubled = (await scene.deliveries(database, order))[1]
        assert (doubled.status, doubled.attempts) == ("delivered", 2)
        kept = await scene.attempts(database, doubled.delivery_id)
        assert [(one.attempt, one.answer_status) for one in kept] == [(1, 200), (2, 200)]


@pytest.mark.on_postgres
async def test_second_copy_that_fails_is_retried_on_the_schedule_from_its_start(database: Database) -> None:
    """A receiver that fails on duplicates gets the notification again after 15 s, and no further copy."""
    async with faulty(database, "twice") as scenery:

        async def once(_: object) -> web.StreamResponse:
            return web.Response(status=200 if len(scenery.receiver.got) != 2 else 500)

        scenery.receiver.answer = once
        order = scene.order_id()
        await scenery.announce(order)
        assert scenery.retries == ["0", "1"]
        scenery.clock.advance(16_600)
        await scene.step(scenery.worker)
        assert scenery.retries == ["0", "1", "2"]
        (delivery,) = await scene.deliveries(database, order)
        assert delivery.status == "delivered"


async def test_out_of_order_sends_the_newer_version_first(database: Database) -> None:
    """The older one follows at once, and the order's end goes last."""
    async with faulty(database, "out_of_order", delay_seconds=600) as scenery:
        order = scene.order_id()
        await scenery.announce(order, 1)
        assert scenery.received == []
        await scenery.announce(order, 2, AT_TERMINAL)
        assert scenery.received == [2, 1]
        await scenery.announce(order, 3, PROCESSED)
        assert scenery.received == [2, 1, 3]
        assert set(scenery.retries) == {"0"}
        assert {one.status for one in await scene.deliveries(database, order)} == {"delivered"}


@pytest.mark.on_postgres
async def test_out_of_order_when_all_versions_are_due_at_once(database: Database) -> None:
    """A backlog is disturbed in the same way."""
    async with faulty(database, "out_of_order", delay_seconds=600) as scenery:
        order = scene.order_id()
        for version, action in enumerate((CREATED, AT_TERMINAL, PROCESSED), 1):
            await scene.announce(database, scenery.clock.now_ms(), order, version, action)
        await scene.step(scenery.worker)
        assert scenery.received == [2, 1, 3]


async def test_out_of_order_gives_up_after_the_delay(database: Database) -> None:
    """Without a newer version the notification is only late."""
    async with faulty(database, "out_of_order", delay_seconds=5) as scenery:
        order = scene.order_id()
        await scenery.announce(order)
        scenery.wall.advance(5_001)
        await scene.step(scenery.worker)
        assert scenery.received == [1]
        await scenery.announce(order, 2, PROCESSED)
        assert scenery.received == [1, 2]


async def test_out_of_order_holds_while_the_newer_version_fails(database: Database) -> None:
    """It waits for the delivery, not for the attempt; other orders are not affected."""
    async with faulty(database, "out_of_order", every=2, delay_seconds=600) as scenery:
        other, order = scene.order_id(), scene.order_id()
        await scenery.announce(other)
        await scenery.announce(order)
        scenery.receiver.answer = scene.failing(500)
        await scenery.announce(order, 2, AT_TERMINAL)
        scenery.receiver.answer = scene.ok
        assert [got.order_and_version for got in scenery.receiver.got] == [(other, 1), (order, 2)]
        scenery.clock.advance(17_000)
        await scene.step(scenery.worker)
        assert [got.order_and_version for got in scenery.receiver.got[2:]] == [(order, 2), (order, 1)]


async def test_bad_signature_is_invalid_once(database: Database) -> None:
    """Both signatures of the first attempt; the retry is valid."""
    async with faulty(database, "bad_signature", every=2) as scenery:
        scenery.receiver.answer = scene.failing(401)
        await scenery.announce(scene.order_id())
        await scenery.announce(scene.order_id())
        assert [scenery.valid(0), scenery.valid(1)] == [(True, True), (False, False)]
        for header in ("X-Signature", "webhook-signature"):
            assert len(scenery.receiver.got[0].headers[header]) == len(scenery.receiver.got[1].headers[header])
        scenery.receiver.answer = scene.ok
        scenery.clock.advance(17_000)
        await scene.step(scenery.worker)
        assert scenery.valid(2) == scenery.valid(3) == (True, True)


async def test_old_timestamp_is_signed_with_a_time_ten_minutes_ago(database: Database) -> None:
    """Both signatures match that time; the retry has the current time."""
    async with faulty(database, "old_timestamp") as scenery:
        scenery.wall.freeze()
        signed_seconds = scenery.wall.now_ms() // 1000 - 600
        scenery.receiver.answer = scene.failing(400)
        await scenery.announce(scene.order_id())
        assert scenery.valid(0) == (False, False)
        assert scenery.valid(0, at_seconds=signed_seconds)[0]
        headers = scenery.receiver.got[0].headers
        assert headers["webhook-timestamp"] == str(signed_seconds)
        assert headers["X-Signature"].startswith(f"ts={headers['webhook-timestamp']},")
        scenery.receiver.answer = scene.ok
        scenery.clock.advance(17_000)
        await scene.step(scenery.worker)
        assert scenery.valid(1) == (True, True)


async def test_dropped_notification_is_exhausted_and_never_sent(database: Database) -> None:
    """The attempt says why. The order's next version is sent, and the subscription does not count as failing."""
    async with faulty(database, "drop", every=2) as scenery:
        order = scene.order_id()
        for version, action in enumerate((CREATED, AT_TERMINAL, PROCESSED), 1):
            await scenery.announce(order, version, action)
        scenery.clock.advance(100_000_000)
        await scene.step(scenery.worker)
        assert scenery.received == [1, 3]
        dropped = (await scene.deliveries(database, order))[1]
        assert (dropped.status, dropped.attempts) == ("exhausted", 1)
        (attempt,) = await scene.attempts(database, dropped.delivery_id)
        assert (attempt.answer_status, attempt.error) == (None, faults.DROPPED)
        failing = await database.read(lambda tx: tx.all("SELECT failing_since_ms, failed_ms FROM subscriptions"))
        assert failing == [(None, None)]


@pytest.mark.parametrize("seed", [None, 7])
async def test_the_same_seed_and_events_have_the_same_victims(database: Database, seed: int | None) -> None:
    """Also with a restart in between, and when the fault is set again."""
    async with faulty(database, "drop", every=3, seed=seed) as scenery:
        runs = []
        for restarts in (False, True):
            await set_fault(database, scenery.subscription_id, "drop", every=3, seed=seed)
            orders = [scene.order_id() for _ in range(9)]
            for number, order in enumerate(orders):
                await scenery.announce(order)
                if restarts and number % 2:
                    async with scene.worker(database, scenery.clock, wall=scenery.wall, development=True) as another:
                        await scene.step(another)
            got = {one.order_and_version[0] for one in scenery.receiver.got}
            runs.append([number for number, order in enumerate(orders, 1) if order not in got])
        expected = [one for one in range(1, 10) if Fault("drop", 3, seed=seed).affects(one)]
        assert runs == [expected, expected]


async def test_victims_do_not_depend_on_how_fast_the_receiver_is(database: Database) -> None:
    """A backlog is numbered in the order of its events, not in that of the attempts."""
    async with faulty(database, "drop", every=3, seed=11) as scenery:
        orders = [scene.order_id() for _ in range(12)]
        for order in orders:
            scenery.clock.advance(1)
            await scene.announce(database, scenery.clock.now_ms(), order)
        await scene.step(scenery.worker)
        got = {one.order_and_version[0] for one in scenery.receiver.got}
        lost = [number for number, order in enumerate(orders, 1) if order not in got]
        assert lost == [one for one in range(1, 13) if Fault("drop", 3, seed=11).affects(one)]


@pytest.mark.on_postgres
async def test_retries_are_not_counted(database: Database) -> None:
    """A failing receiver shifts no numbers, and the fault of a first attempt is not applied to a retry."""
    async with faulty(database, "drop", every=2) as scenery:
        scenery.receiver.answer = scene.failing(500)
        await scenery.announce(scene.order_id())
        scenery.clock.advance(17_000)
        await scene.step(scenery.worker)
        scenery.receiver.answer = scene.ok
        second, third = scene.order_id(), scene.order_id()
        await scenery.announce(second)
        await scenery.announce(third)
        got = {one.order_and_version[0] for one in scenery.receiver.got}
        assert (second in got, third in got) == (False, True)
        (lost,) = await scene.deliveries(database, second)
        assert lost.status == "exhausted"


async def test_attempts_that_began_before_the_fault_are_not_affected(database: Database) -> None:
    """Only notifications that were never sent are counted."""
    async with faulty(database, "drop") as scenery:
        await set_fault(database, scenery.subscription_id, None)
        scenery.receiver.answer = scene.failing(500)
        order = scene.order_id()
        await scenery.announce(order)
        await set_fault(database, scenery.subscription_id, "drop")
        scenery.receiver.answer = scene.ok
        scenery.clock.advance(17_000)
        await scene.step(scenery.worker)
        (delivery,) = await scene.deliveries(database, order)
        assert (delivery.status, delivery.attempts) == ("delivered", 2)


@pytest.mark.parametrize("kind", ["late", "out_of_order"])
async def test_clearing_a_fault_sends_what_it_held_back(database: Database, kind: FaultKind) -> None:
    """At once, in order."""
    async with faulty(database, kind, delay_seconds=600) as scenery:
        orders = [scene.order_id() for _ in range(3)]
        for order in orders:
            await scenery.announce(order)
        assert scenery.received == []
        await set_fault(database, scenery.subscription_id, None)
        await scene.step(scenery.worker)
        assert sorted(got.order_and_version[0] for got in scenery.receiver.got) == sorted(orders)


@pytest.mark.on_postgres
async def test_replacing_a_fault_counts_what_is_held_again(database: Database) -> None:
    """The new fault decides about it."""
    async with faulty(database, "late", delay_seconds=600) as scenery:
        order = scene.order_id()
        await scenery.announce(order)
        await set_fault(database, scenery.subscription_id, "twice")
        await scene.step(scenery.worker)
        assert scenery.retries == ["0", "1"]


async def test_a_fault_replaced_during_the_claim_is_not_applied(database: Database) -> None:
    """The worker reads the fault again; nothing is lost and nothing is counted for the wrong fault."""
    async with faulty(database, "drop") as scenery:
        target = await database.read(lambda tx: store.target(tx, scene.SELLER, scenery.subscription_id))
        assert target is not None
        dropping = faults.encode(Fault("drop", 1))
        await set_fault(database, scenery.subscription_id, "twice")
        await scene.announce(database, scenery.clock.now_ms(), scene.order_id())
        now_ms, wall_ms = scenery.clock.now_ms(), scenery.wall.now_ms()
        claim = Claim(now_ms, wall_ms, wall_ms + 1, 10)
        claimed = await database.write(
            lambda tx: fault_store.claim_disturbed(tx, scene.SELLER, scenery.subscription_id, target, claim, dropping)
        )
        assert claimed == []
        await scene.step(scenery.worker)
        assert scenery.retries == ["0", "1"]


async def test_a_fault_survives_a_crash_before_the_attempt_is_recorded(database: Database) -> None:
    """The claim expires, and the notification is sent as if it were the first time."""
    async with faulty(database, "bad_signature") as scenery:
        await scene.announce(database, scenery.clock.now_ms(), scene.order_id())
        target = await database.read(lambda tx: store.target(tx, scene.SELLER, scenery.subscription_id))
        assert target is not None
        now_ms, wall_ms = scenery.clock.now_ms(), scenery.wall.now_ms()
        crashed = await database.write(
            lambda tx: fault_store.claim(
                tx, scene.SELLER, scenery.subscription_id, target, Claim(now_ms, wall_ms, wall_ms + 1_000, 10)
            )
        )
        assert [row.fault for row in crashed if isinstance(row, Disturbed)] == ["bad_signature"]
        scenery.wall.advance(1_001)
        await scene.step(scenery.worker)
        assert scenery.retries == ["1"]
        assert scenery.valid(0) == (False, False)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stored_fault_is_ignored_in_production(database: Database, kind: FaultKind) -> None:
    """A worker that is not for development sends every notification once, valid, in order and at once."""
    async with faulty(database, kind, delay_seconds=600, development=False) as scenery:
        order = scene.order_id()
        for version, action in enumerate((CREATED, AT_TERMINAL, PROCESSED), 1):
            await scenery.announce(order, version, action)
        assert scenery.received == [1, 2, 3]
        assert scenery.retries == ["0", "0", "0"]
        assert [scenery.valid(place) for place in range(3)] == [(True, True)] * 3
        counted = await database.read(lambda tx: tx.one("SELECT fault_count FROM subscriptions"))
        assert counted == (0,)


@pytest.mark.on_postgres
@pytest.mark.parametrize("kind", ["late", "twice", "out_of_order", "bad_signature", "old_timestamp", "drop"])
async def test_consents_are_disturbed_too(database: Database, kind: FaultKind) -> None:
    """Notifications of topic `mp-connect` are counted and affected as those of orders."""
    clock, wall = MovableClock(), MovableClock()
    clock.freeze()
    wall.freeze()
    async with (
        scene.receiver() as receiver,
        scene.worker(database, clock, wall=wall, development=True) as worker,
    ):
        subscription_id, _ = await scene.subscribe(database, receiver.url, topic=CONNECT_TOPIC)
        await set_fault(database, subscription_id, kind, every=2, delay_seconds=30)
        for action in ("application.authorized", "application.deauthorized", "application.authorized"):
            await announce_connect(database, clock.now_ms(), action)
            await scene.step(worker)
            clock.advance(1)
        wall.advance(31_000)
        await scene.step(worker)
        numbers = {"twice": 4, "drop": 2}.get(kind, 3)
        assert len(receiver.got) == numbers
        actions = [json.loads(got.body)["action"].partition(".")[2] for got in receiver.got]
        if kind == "out_of_order":
            assert actions == ["authorized", "authorized", "deauthorized"]


async def announce_connect(database: Database, now_ms: int, action: str) -> None:
    """Insert an event of the seller's consent."""
    await database.write(
        lambda tx: outbox.announce_connect(
            tx, seller_id=scene.SELLER, application_id=scene.APPLICATION, action=action, now_ms=now_ms
        )
    )


async def test_faults_of_one_subscription_do_not_affect_another(database: Database) -> None:
    """Another subscription of the same application gets everything at once."""
    async with faulty(database, "late", delay_seconds=600) as scenery, scene.receiver() as other:
        await scene.subscribe(database, other.url)
        await scenery.announce(scene.order_id())
        assert (len(other.got), len(scenery.receiver.got)) == (1, 0)


async def test_many_orders_at_once_are_all_delivered_once_numbered(database: Database) -> None:
    """With concurrent attempts each number is given once."""
    async with faulty(database, "twice", every=5, seed=3) as scenery:

        async def slow(_: object) -> web.StreamResponse:
            for _ in range(10):  # Others arrive meanwhile.
                await asyncio.sleep(0)
            return web.Response()

        scenery.receiver.answer = slow
        for _ in range(50):
            scenery.clock.advance(1)
            await scene.announce(database, scenery.clock.now_ms(), scene.order_id())
        await scene.step(scenery.worker)
        assert len(scenery.receiver.got) == 60
        ordinals = await database.read(lambda tx: tx.all("SELECT fault_ordinal FROM deliveries"))
        assert sorted(row[0] for row in ordinals) == list(range(1, 51))
