"""A delivery that failed five times is superseded by a newer version of its order."""

from __future__ import annotations

import json

import pytest
import structlog
from aiohttp import web

import webhooks_scene as scene
from paydesk.core.clock import MovableClock
from paydesk.engine.webhooks.schedule import SUPERSEDED_AFTER_ATTEMPTS
from paydesk.platform.storage.database import Database, Transaction

PAUSE_MS = 1200


async def _failing_times(worker: scene.DeliveryWorker, clock: MovableClock, times: int) -> None:
    for _ in range(times):
        assert await scene.step(worker) == 1
        clock.advance(PAUSE_MS)


@pytest.mark.on_postgres
@pytest.mark.parametrize("attempts", [SUPERSEDED_AFTER_ATTEMPTS - 1, SUPERSEDED_AFTER_ATTEMPTS])
async def test_a_newer_version_supersedes_after_four_retries(
    database: Database, clock: MovableClock, attempts: int
) -> None:
    """It is sent at once. Before, it waits."""
    async with (
        scene.receiver(scene.failing(500)) as receiver,
        scene.worker(database, clock, webhook_retry_seconds=(1,) * 4 + (3600,) * 6) as worker,
    ):
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order, 1)
        await _failing_times(worker, clock, attempts)
        await scene.announce(database, clock.now_ms(), order, 2)
        receiver.answer = scene.ok
        await scene.step(worker)
    first, second = await scene.deliveries(database, order)
    superseded = attempts == SUPERSEDED_AFTER_ATTEMPTS
    assert (first.status, second.status) == ("superseded" if superseded else "delivered", "delivered")
    assert first.ended_ms is not None
    assert receiver.got[-1].order_and_version == (order, 2)
    assert len(receiver.got) == attempts + (1 if superseded else 2)


async def test_a_version_that_waited_is_sent_when_its_predecessor_fails_the_fifth_time(
    database: Database, clock: MovableClock
) -> None:
    """Each version gets five attempts; the newest is not superseded."""
    async with (
        scene.receiver(scene.failing(500)) as receiver,
        scene.worker(database, clock, webhook_retry_seconds=(1,) * 10) as worker,
    ):
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        for version in (1, 2, 3):
            await scene.announce(database, clock.now_ms(), order, version)
        for _ in range(24):
            await scene.step(worker)
            clock.advance(PAUSE_MS)
    versions = [one.order_and_version[1] for one in receiver.got]
    assert versions == [1] * 5 + [2] * 5 + [3] * 11
    assert [one.status for one in await scene.deliveries(database, order)] == ["superseded", "superseded", "exhausted"]


@pytest.mark.on_postgres
@pytest.mark.parametrize("attempts", [SUPERSEDED_AFTER_ATTEMPTS - 1, SUPERSEDED_AFTER_ATTEMPTS])
async def test_a_version_announced_during_the_pause_before_a_retry_supersedes(
    database: Database, clock: MovableClock, attempts: int
) -> None:
    """After five attempts. After four it waits for the retry."""
    async with (
        scene.receiver(scene.failing(500)) as receiver,
        scene.worker(database, clock, webhook_retry_seconds=(1,) * (attempts - 1) + (3600,) * 6) as worker,
    ):
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order, 1)
        await _failing_times(worker, clock, attempts)
        await scene.announce(database, clock.now_ms(), order, 2)
        receiver.answer = scene.ok
        await scene.step(worker)
    statuses = [one.status for one in await scene.deliveries(database, order)]
    assert statuses == (["superseded", "delivered"] if attempts == SUPERSEDED_AFTER_ATTEMPTS else ["pending"] * 2)


async def test_without_a_newer_version_all_attempts_are_made(database: Database, clock: MovableClock) -> None:
    """A newer version of another order has no effect."""
    async with (
        scene.receiver(scene.failing(500)) as receiver,
        scene.worker(database, clock, webhook_retry_seconds=(1,) * 6) as worker,
    ):
        await scene.subscribe(database, receiver.url)
        order, other = scene.order_id(), scene.order_id()
        await scene.announce(database, clock.now_ms(), order, 1)
        await scene.announce(database, clock.now_ms(), other, 2)
        for _ in range(8):
            await scene.step(worker)
            clock.advance(PAUSE_MS)
    assert [(one.status, one.attempts) for one in await scene.deliveries(database, order)] == [("exhausted", 7)]


async def test_uncounted_attempts_do_not_supersede(database: Database, clock: MovableClock) -> None:
    """After a resume each version has its retries again."""

    async def uncount(tx: Transaction) -> int:
        return await tx.run("UPDATE deliveries SET attempts = 9, uncounted = 9 WHERE version = 1")

    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        for version in (1, 2):
            await scene.announce(database, clock.now_ms(), order, version)
        await database.write(uncount)
        await scene.step(worker)
    assert [one.order_and_version[1] for one in receiver.got] == [1, 2]
    assert receiver.got[0].headers["X-Retry"] == "9"


async def test_a_failure_is_a_warning_with_its_facts(database: Database, clock: MovableClock) -> None:
    """Without the URL's query, which may have credentials of the receiver. A success is no warning."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=503 if len(receiver.got) == 1 else 200)

    with structlog.testing.capture_logs() as logged:
        async with scene.receiver(answer) as receiver, scene.worker(database, clock) as worker:
            subscription_id, _ = await scene.subscribe(database, receiver.url)
            order = scene.order_id()
            await scene.announce(database, clock.now_ms(), order)
            await scene.step(worker)
            clock.advance(20_000)
            await scene.step(worker)
    (delivery,) = await scene.deliveries(database, order)
    (failed,) = [line for line in logged if line["event"] == "delivery_failed"]
    (sent,) = [line for line in logged if line["event"] == "webhook_sent"]
    assert failed["log_level"] == "warning"
    assert failed["address"] == receiver.url.partition("?")[0]
    assert "shop=7" not in str(logged)
    facts = {"delivery": delivery.delivery_id, "subscription": subscription_id, "attempt": 1, "status": 503}
    assert {name: failed[name] for name in facts} == facts
    assert failed["next_attempt"].endswith("Z")
    assert failed["milliseconds"] >= 0
    assert (sent["log_level"], sent["attempt"]) == ("info", 2)


async def test_each_attempt_keeps_the_request_that_was_sent(database: Database, clock: MovableClock) -> None:
    """Its URL and its headers, as the receiver got them."""
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        await scene.step(worker)
    (delivery,) = await scene.deliveries(database, order)
    sql = "SELECT request FROM attempts WHERE seller_id = $1 AND delivery_id = $2"
    row = await database.read(lambda tx: tx.one(sql, scene.SELLER, delivery.delivery_id))
    assert row is not None
    request = json.loads(row[0])
    assert request["url"] == str(receiver.got[0].url)
    assert {name: receiver.got[0].headers[name] for name in request["headers"]} == request["headers"]


async def test_an_event_without_subscription_is_one_row(database: Database, clock: MovableClock) -> None:
    """No delivery is inserted, and none for a subscription to other actions."""
    await scene.subscribe(database, "https://shop.example/hooks", actions=("order.refunded",))
    before = await database.read(_rows)
    await scene.announce(database, clock.now_ms(), scene.order_id())
    assert await database.read(_rows) == (before[0] + 1, before[1])


async def _rows(tx: Transaction) -> tuple[int, int]:
    counts = []
    for table in ("order_events", "deliveries"):
        row = await tx.one(f"SELECT COUNT(*) FROM {table}")
        assert row is not None
        counts.append(row[0])
    return counts[0], counts[1]
