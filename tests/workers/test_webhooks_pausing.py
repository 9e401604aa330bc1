"""Pauses of subscriptions: by an operator, and after five days of failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

import webhooks_scene as scene
from paydesk.core.clock import MovableClock
from paydesk.engine.webhooks.delivery import failing, parking, store
from paydesk.engine.webhooks.schedule import PARKED_MS
from paydesk.engine.webhooks.subscriptions import pausing
from paydesk.platform.storage.database import Database
from paydesk.service.retention import Sweep
from retention_scene import add_seller, context_of

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
STATE = "SELECT paused_ms, paused_by, failing_since_ms, failed_ms FROM subscriptions WHERE subscription_id = $1"
EVENTS = "SELECT kind, subject, message FROM operator_events WHERE kind = 'webhook_paused'"
UNCOUNTED = "SELECT attempts, uncounted FROM deliveries WHERE seller_id = $1 AND delivery_id = $2"


async def _state(database: Database, subscription_id: str) -> tuple[Any, ...]:
    row = await database.read(lambda tx: tx.one(STATE, subscription_id))
    assert row is not None
    return tuple(row)


async def _pause(database: Database, subscription_id: str, now_ms: int) -> bool:
    return await database.write(lambda tx: pausing.pause(tx, subscription_id, "operator", now_ms))


async def _resume(database: Database, subscription_id: str) -> bool:
    return await database.write(lambda tx: pausing.resume(tx, subscription_id))


async def test_paused_deliveries_stay_pending_and_are_sent_in_order_on_resume(
    database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those announced before and during the pause, in several steps; versions of an order ascend."""
    monkeypatch.setattr(parking, "STEP_ROWS_MAX", 2)
    orders = [scene.order_id() for _ in range(3)]
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        for order in orders:
            await scene.announce(database, clock.now_ms(), order, 1)
        assert await _pause(database, subscription_id, clock.now_ms())
        assert not await _pause(database, subscription_id, clock.now_ms())
        for order in orders:
            await scene.announce(database, clock.now_ms(), order, 2)
        for _ in range(4):
            assert await scene.step(worker) == 0
        rows = [one for order in orders for one in await scene.deliveries(database, order)]
        assert {(one.status, one.next_ms) for one in rows} == {("pending", PARKED_MS)}
        clock.advance(3 * DAY_MS)
        assert await scene.step(worker) == 0
        assert await _resume(database, subscription_id)
        assert not await _resume(database, subscription_id)
        for _ in range(8):
            await scene.step(worker)
    for order in orders:
        assert [one.order_and_version[1] for one in receiver.got if one.order_and_version[0] == order] == [1, 2]
    assert await database.read(scene.pending_count) == 0


@pytest.mark.on_postgres
async def test_a_resume_starts_the_schedule_anew(database: Database, clock: MovableClock) -> None:
    """Earlier attempts are not counted by the schedule, but `X-Retry` continues."""
    async with (
        scene.receiver(scene.failing(500)) as receiver,
        scene.worker(database, clock, webhook_retry_seconds=(10, 20)) as worker,
    ):
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        await scene.step(worker)
        clock.advance(12_000)
        await scene.step(worker)
        await _pause(database, subscription_id, clock.now_ms())
        await scene.step(worker)
        await _resume(database, subscription_id)
        for seconds in (0, 12, 23, 100):
            clock.advance(seconds * 1000)
            await scene.step(worker)
            await scene.step(worker)
        (delivery,) = await scene.deliveries(database, order)
        row = await database.read(lambda tx: tx.one(UNCOUNTED, scene.SELLER, delivery.delivery_id))
    assert [got.headers["X-Retry"] for got in receiver.got] == ["0", "1", "2", "3", "4"]
    assert delivery.status == "exhausted"
    assert row is not None
    assert tuple(row) == (5, 2)


@pytest.mark.on_postgres
async def test_a_delivery_announced_as_parked_during_the_resume_is_sent(
    database: Database, clock: MovableClock
) -> None:
    """The worker finds it, whenever the announcement was committed."""
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        await database.write(lambda tx: tx.run("UPDATE deliveries SET next_ms = $1", PARKED_MS))
        for _ in range(2):
            await scene.step(worker)
    assert len(receiver.got) == 1


async def test_a_success_does_not_release_parked_deliveries(database: Database, clock: MovableClock) -> None:
    """An attempt that was in progress at the pause ends; the deliveries stay parked."""
    gate = asyncio.Event()

    async def wait(request: Any) -> Any:
        await gate.wait()
        return await scene.ok(request)

    async with scene.receiver(wait) as receiver, scene.worker(database, clock) as worker:
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order, 1)
        await worker.start_due()
        await _pause(database, subscription_id, clock.now_ms())
        await scene.announce(database, clock.now_ms(), order, 2)
        gate.set()
        await worker.settle()
        first, second = await scene.deliveries(database, order)
        assert await scene.step(worker) == 0
    assert (first.status, second.status, second.next_ms) == ("delivered", "pending", PARKED_MS)


async def test_five_days_of_failures_pause_a_subscription_once(database: Database, clock: MovableClock) -> None:
    """One operator event and one warning, which say what to do, although many attempts fail at the same time."""
    with structlog.testing.capture_logs() as logged:
        async with scene.receiver(scene.failing(500)) as receiver, scene.worker(database, clock) as worker:
            subscription_id, _ = await scene.subscribe(database, receiver.url)
            began_ms = clock.now_ms()
            for day in range(6):
                for _ in range(3):
                    await scene.announce(database, clock.now_ms(), scene.order_id())
                await scene.step(worker)
                paused_ms, paused_by, since_ms, _ = await _state(database, subscription_id)
                assert (paused_ms is not None, paused_by) == ((True, "failures") if day == 5 else (False, None))
                assert began_ms <= since_ms < began_ms + HOUR_MS
                clock.advance(DAY_MS)
            assert await scene.step(worker) == 0
    events = await database.read(lambda tx: tx.all(EVENTS))
    assert [(row[0], row[1]) for row in events] == [("webhook_paused", subscription_id)]
    assert f"paydesk subscriptions resume {subscription_id}" in events[0][2]
    assert [line["log_level"] for line in logged if line["event"] == "webhook_paused"] == ["warning"]


async def test_a_success_within_five_days_prevents_the_pause(database: Database, clock: MovableClock) -> None:
    """The time is measured from the first failure after the last success."""
    async with scene.receiver(scene.failing(500)) as receiver, scene.worker(database, clock) as worker:
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        for day in range(8):
            receiver.answer = scene.ok if day == 4 else scene.failing(500)
            await scene.announce(database, clock.now_ms(), scene.order_id())
            await scene.step(worker)
            if day == 4:
                assert await _state(database, subscription_id) == (None, None, None, None)
            clock.advance(DAY_MS)
        assert (await _state(database, subscription_id))[0] is None


@pytest.mark.on_postgres
async def test_two_days_without_attempts_start_the_five_days_anew(database: Database, clock: MovableClock) -> None:
    """Two failures that are a week apart are not a week of failures."""
    async with (
        scene.receiver(scene.failing(500)) as receiver,
        scene.worker(database, clock, webhook_retry_seconds=(1,)) as worker,
    ):
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        for _ in range(3):
            await scene.announce(database, clock.now_ms(), scene.order_id())
            await scene.step(worker)
            clock.advance(2_000)
            await scene.step(worker)
            state = await _state(database, subscription_id)
            assert state[0] is None
            assert clock.now_ms() - state[2] < HOUR_MS
            clock.advance(7 * DAY_MS)


@pytest.mark.on_postgres
async def test_a_success_recorded_at_the_same_time_prevents_the_pause(database: Database, clock: MovableClock) -> None:
    """The failure was claimed while the subscription was failing for five days; the success is recorded first."""
    subscription_id, _ = await scene.subscribe(database, "https://shop.example/hooks")
    now_ms = clock.now_ms()
    since_ms = now_ms - 6 * DAY_MS
    sql = "UPDATE subscriptions SET failing_since_ms = $2, failed_ms = $3 WHERE subscription_id = $1"
    await database.write(lambda tx: tx.run(sql, subscription_id, since_ms, now_ms))
    target = await database.read(lambda tx: store.target(tx, scene.SELLER, subscription_id))
    assert target is not None
    await database.write(lambda tx: failing.recovered(tx, subscription_id))
    assert await database.write(lambda tx: failing.failed(tx, subscription_id, target, now_ms)) is None
    assert await _state(database, subscription_id) == (None, None, None, None)


async def test_stored_failures_are_written_once_an_hour(database: Database, clock: MovableClock) -> None:
    """`failed_ms` is refreshed at most hourly, `failing_since_ms` stays."""
    async with scene.receiver(scene.failing(500)) as receiver, scene.worker(database, clock) as worker:
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        states = []
        for minutes in (0, 30, 31):
            clock.advance(minutes * 60_000)
            await scene.announce(database, clock.now_ms(), scene.order_id())
            await scene.step(worker)
            states.append((await _state(database, subscription_id))[2:])
    assert states[0] == states[1]
    assert states[2][0] == states[0][0]
    assert states[2][1] >= states[0][1] + HOUR_MS


async def test_a_deleted_subscription_withdraws_its_parked_deliveries(database: Database, clock: MovableClock) -> None:
    """Nothing stays pending for ever."""
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        await _pause(database, subscription_id, clock.now_ms())
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        await database.write(lambda tx: tx.run("UPDATE subscriptions SET deleted_ms = 1"))
        for _ in range(2):
            await scene.step(worker)
    assert [one.status for one in await scene.deliveries(database, order)] == ["withdrawn"]


@pytest.mark.on_postgres
async def test_parked_deliveries_are_exhausted_after_30_days(database: Database, clock: MovableClock) -> None:
    """The younger ones and those of other subscriptions stay pending."""
    subscription_id, _ = await scene.subscribe(database, "https://shop.example/hooks")
    await scene.subscribe(database, "https://shop.example/others")
    await database.write(lambda tx: add_seller(tx, scene.SELLER))
    await _pause(database, subscription_id, clock.now_ms())
    old, young = scene.order_id(), scene.order_id()
    await scene.announce(database, clock.now_ms() - 30 * DAY_MS - 1000, old)
    await scene.announce(database, clock.now_ms() - 29 * DAY_MS, young)
    await Sweep(context_of(database, clock), asyncio.Event(), step_rows_max=1).run()
    now_ms = clock.now_ms()
    for order, status in ((old, "exhausted"), (young, "pending")):
        found = {one.subscription_id: one for one in await scene.deliveries(database, order)}
        assert found.pop(subscription_id).status == status
        assert [one.status for one in found.values()] == ["pending"]
    ended = [one.ended_ms for one in await scene.deliveries(database, old) if one.ended_ms is not None]
    assert len(ended) == 1
    assert now_ms - 60_000 < ended[0] <= now_ms
