"""What waits for a retry is made due by a success and by a resume, of all sellers and in bounded steps."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

import webhooks_scene as scene
from paydesk.core.clock import MovableClock, SystemClock
from paydesk.engine.webhooks.delivery import outcome_store, parking, store, worker
from paydesk.engine.webhooks.subscriptions import pausing
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.platform.jobs import Claim
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.worker import WorkerContext

OTHER_SELLER = scene.SELLER + 1
WAITING = "SELECT COUNT(*) FROM deliveries WHERE status = 'pending' AND next_ms > $1"
UNCOUNTED = "SELECT DISTINCT attempts - uncounted FROM deliveries WHERE status = 'pending'"
HOURS = (3600,) * 10


async def _waiting(database: Database, now_ms: int) -> int:
    row = await database.read(lambda tx: tx.one(WAITING, now_ms))
    assert row is not None
    return int(row[0])


async def test_the_first_success_makes_the_deliveries_of_all_sellers_due(
    database: Database, clock: MovableClock
) -> None:
    """The receiver is one, for all sellers alike."""
    async with (
        scene.receiver(scene.failing(500)) as receiver,
        scene.worker(database, clock, webhook_retry_seconds=HOURS) as worker,
    ):
        await scene.subscribe(database, receiver.url)
        for seller_id in (scene.SELLER, OTHER_SELLER):
            await scene.announce(database, clock.now_ms(), scene.order_id(), seller_id=seller_id)
        await scene.step(worker)
        receiver.answer = scene.ok
        clock.advance(1000)
        await scene.announce(database, clock.now_ms(), scene.order_id())
        for _ in range(3):
            await scene.step(worker)
    assert len(receiver.got) == 5
    assert await database.read(scene.pending_count) == 0


async def test_a_success_does_not_repeat_deliveries_that_failed_beside_earlier_successes(
    database: Database, clock: MovableClock
) -> None:
    """A notification that the receiver always rejects keeps its schedule."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=500 if receiver.got[-1].order_and_version[0] == rejected else 200)

    rejected = scene.order_id()
    async with (
        scene.receiver(answer) as receiver,
        scene.worker(database, clock, webhook_retry_seconds=HOURS) as worker,
    ):
        await scene.subscribe(database, receiver.url)
        await scene.announce(database, clock.now_ms(), rejected)
        for _ in range(6):
            await scene.step(worker)
            clock.advance(1000)
            await scene.announce(database, clock.now_ms(), scene.order_id())
        for _ in range(3):
            await scene.step(worker)
        got = [one.order_and_version[0] for one in receiver.got]
    assert got.count(rejected) == 2


async def test_a_resume_makes_retries_due_that_were_not_parked_yet(
    database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In steps, and their schedule starts anew, as that of the parked ones does."""
    monkeypatch.setattr(parking, "STEP_ROWS_MAX", 2)
    async with (
        scene.receiver(scene.failing(500)) as receiver,
        scene.worker(database, clock, webhook_retry_seconds=HOURS) as worker,
    ):
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        for seller_id in (scene.SELLER, OTHER_SELLER):
            for _ in range(5):
                await scene.announce(database, clock.now_ms(), scene.order_id(), seller_id=seller_id)
        await scene.step(worker)
        assert await _waiting(database, clock.now_ms()) == 10
        await database.write(lambda tx: pausing.pause(tx, subscription_id, "operator", clock.now_ms()))
        await database.write(lambda tx: pausing.resume(tx, subscription_id))
        receiver.answer = scene.ok
        clock.advance(1000)
        for _ in range(15):
            await scene.step(worker)
        assert await database.read(scene.pending_count) == 0


@pytest.mark.on_postgres
async def test_a_new_url_gets_what_waits_for_a_retry(database: Database, clock: MovableClock) -> None:
    """At once, because it has not failed. The schedule goes on."""
    async with (
        scene.receiver(scene.failing(500)) as failing,
        scene.receiver(scene.failing(500)) as receiver,
        scene.worker(database, clock, webhook_retry_seconds=HOURS) as worker,
    ):
        subscription_id, _ = await scene.subscribe(database, failing.url)
        for seller_id in (scene.SELLER, OTHER_SELLER):
            await scene.announce(database, clock.now_ms(), scene.order_id(), seller_id=seller_id)
        await scene.step(worker)

        async def change(tx: Transaction) -> None:
            before = await subscriptions.lock(tx, subscription_id)
            assert before is not None
            await subscriptions.change(tx, before, url=receiver.url, actions=None, now_ms=clock.now_ms())

        await database.write(change)
        clock.advance(1000)
        for _ in range(3):
            await scene.step(worker)
        rows = await database.read(lambda tx: tx.all(UNCOUNTED))
    assert (len(failing.got), len(receiver.got)) == (2, 2)
    assert [tuple(row) for row in rows] == [(2,)]


async def test_after_a_resume_failures_are_retried_on_the_schedule(database: Database, clock: MovableClock) -> None:
    """They are made due once."""
    async with (
        scene.receiver(scene.failing(500)) as receiver,
        scene.worker(database, clock, webhook_retry_seconds=HOURS) as worker,
    ):
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        await scene.announce(database, clock.now_ms(), scene.order_id())
        await scene.step(worker)
        await database.write(lambda tx: pausing.pause(tx, subscription_id, "operator", clock.now_ms()))
        await database.write(lambda tx: pausing.resume(tx, subscription_id))
        for _ in range(5):
            await scene.step(worker)
            clock.advance(1000)
        rows = await database.read(lambda tx: tx.all(UNCOUNTED))
    assert len(receiver.got) == 2
    assert [tuple(row) for row in rows] == [(1,)]


async def test_a_failure_defers_the_later_versions_of_its_order(database: Database, clock: MovableClock) -> None:
    """Also in a backlog, in which each claim takes as many as it may."""
    subscription_id, _ = await scene.subscribe(database, "https://shop.example/hooks")
    orders = [scene.order_id() for _ in range(2)]
    for order in orders:
        for version in (1, 2, 3):
            await scene.announce(database, clock.now_ms(), order, version)
    now_ms = clock.now_ms()
    times = Claim(now_ms, now_ms, now_ms + 30_000, limit=1)
    (claimed,) = await database.write(lambda tx: scene.claim(tx, subscription_id, times))
    next_ms = now_ms + 60_000
    await database.write(lambda tx: outcome_store.failed(tx, claimed, now_ms, next_ms))
    await database.write(lambda tx: outcome_store.failed(tx, claimed, now_ms, next_ms))
    other = orders[1 - orders.index(claimed.order_id)]
    assert [one.next_ms for one in await scene.deliveries(database, claimed.order_id)] == [next_ms] * 3
    assert {one.next_ms <= now_ms for one in await scene.deliveries(database, other)} == {True}


async def test_the_seller_whose_delivery_has_been_due_longest_is_served_first(
    database: Database, clock: MovableClock
) -> None:
    """Otherwise a seller with a constant backlog would get all slots of a slow receiver."""
    subscription_id, _ = await scene.subscribe(database, "https://shop.example/hooks")
    sellers = [5_000 - place * 7 % 11 for place in range(8)]
    for seller_id in sellers:
        clock.advance(10)
        await scene.announce(database, clock.now_ms(), scene.order_id(), seller_id=seller_id)
    for seller_id in sellers:
        clock.advance(10)
        await scene.announce(database, clock.now_ms(), scene.order_id(), seller_id=seller_id)
    now_ms = clock.now_ms()
    assert await database.read(lambda tx: store.sellers_due(tx, subscription_id, now_ms, now_ms)) == sellers


async def test_one_turn_moves_a_bounded_number_of_sellers(
    database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause of a subscription with many sellers does not delay the deliveries of others."""
    monkeypatch.setattr(parking, "STEP_SELLERS_MAX", 2)
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        for place in range(5):
            await scene.announce(database, clock.now_ms(), scene.order_id(), seller_id=scene.SELLER + place)
        await database.write(lambda tx: pausing.pause(tx, subscription_id, "operator", clock.now_ms()))
        parked = []
        for _ in range(4):
            await scene.step(worker)
            parked.append(await _waiting(database, clock.now_ms()))
    assert parked == [2, 4, 5, 5]


async def test_claims_of_a_killed_process_are_released_at_the_start_on_sqlite(
    database: Database, clock: MovableClock
) -> None:
    """On PostgreSQL another node may be making the attempt, so they expire."""
    stop = asyncio.Event()
    async with scene.receiver() as receiver:
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        await scene.announce(database, clock.now_ms(), scene.order_id())
        wall_ms = SystemClock().now_ms()
        times = Claim(clock.now_ms(), wall_ms, wall_ms + 30_000, limit=1)
        assert len(await database.write(lambda tx: scene.claim(tx, subscription_id, times))) == 1
        context = WorkerContext(database, Settings(), clock, scene.KEYS, loopback_allowed=True)
        running = asyncio.create_task(worker.run(context, stop))
        expected = ["1", "0"] if database.name == "sqlite" else ["0"]
        await scene.announce(database, clock.now_ms(), scene.order_id())
        await scene.until(lambda: len(receiver.got) >= len(expected))
        stop.set()
        database.signals.notify_local(["stop"])
        await running
    assert [got.headers["X-Retry"] for got in receiver.got] == expected
