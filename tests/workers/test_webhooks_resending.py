"""Resends: one attempt outside the order and the schedule, beside the worker of the schedule."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiohttp import web

import webhooks_scene as scene
from faulty_database import FaultyDatabase
from paydesk.core.clock import Clock, MovableClock
from paydesk.core.keys import Keys
from paydesk.engine.webhooks import outbox, retention
from paydesk.engine.webhooks.addresses import CheckedResolver
from paydesk.engine.webhooks.delivery import replaying, resend_store, store
from paydesk.engine.webhooks.delivery.job import DeliveryJob
from paydesk.engine.webhooks.delivery.resend_store import Resend
from paydesk.engine.webhooks.delivery.resending import ResendJob
from paydesk.engine.webhooks.delivery.sending import Sender
from paydesk.engine.webhooks.delivery.worker import run
from paydesk.engine.webhooks.subscriptions import pausing
from paydesk.platform.jobs import Claim, JobWorker, run_together
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction, Unavailable
from paydesk.platform.worker import WorkerContext
from skipped_waits import skipped_waits

ResendWorker = JobWorker[tuple[str, int], Resend]

LEASE_MS = 40_000
UPDATE = "UPDATE deliveries SET {} WHERE seller_id = $1 AND delivery_id = $2"


@asynccontextmanager
async def workers(
    database: Database, clock: MovableClock, *, wall: Clock | None = None, keys: Keys = scene.KEYS, **overrides: object
) -> AsyncIterator[tuple[scene.DeliveryWorker, ResendWorker]]:
    """Yield the two workers of a node, which share slots, for the test to step."""
    settings = Settings.model_validate(overrides)
    context = WorkerContext(database, settings, clock, keys, loopback_allowed=True)
    resolver = CheckedResolver(loopback_allowed=True)
    async with Sender(resolver, timeout_seconds=settings.webhook_timeout_seconds) as sender:
        job = DeliveryJob(context, sender, wall)
        yield JobWorker(context, job, wall=wall), JobWorker(context, ResendJob(context, job), wall=wall)


async def request(database: Database, delivery_id: str, clock: MovableClock) -> None:
    """Request a resend."""
    now_ms = clock.now_ms()
    await database.write(lambda tx: resend_store.request(tx, scene.SELLER, delivery_id, now_ms))


async def change(database: Database, delivery_id: str, assignments: str) -> None:
    """Change a delivery's row."""
    await database.write(lambda tx: tx.run(UPDATE.format(assignments), scene.SELLER, delivery_id))


async def state(database: Database, delivery_id: str) -> tuple[Any, ...]:
    """Return status, attempts, uncounted, and whether a request waits and a claim exists."""
    sql = """SELECT status, attempts, uncounted, CASE WHEN resend_ms IS NULL THEN 0 ELSE 1 END,
                    CASE WHEN claimed_until_ms = 0 THEN 0 ELSE 1 END
               FROM deliveries WHERE seller_id = $1 AND delivery_id = $2"""
    row = await database.read(lambda tx: tx.one(sql, scene.SELLER, delivery_id))
    assert row is not None
    return tuple(row)


async def announced(database: Database, clock: MovableClock, *, versions: int = 1) -> list[str]:
    """Announce versions of a new order; return the ids of their deliveries."""
    order = scene.order_id()
    for version in range(1, versions + 1):
        await scene.announce(database, clock.now_ms(), order, version)
    return [delivery.delivery_id for delivery in await scene.deliveries(database, order)]


@pytest.mark.parametrize("status", ["exhausted", "superseded", "withdrawn", "pending", "delivered"])
async def test_success_makes_it_delivered(database: Database, clock: MovableClock, status: str) -> None:
    """From every status; the attempt has the same ids and body, and X-Retry goes on."""
    clock.freeze()
    async with scene.receiver() as receiver, workers(database, clock) as (_, resends):
        await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        ended = "next_ms = next_ms + 60000" if status == "pending" else "ended_ms = 7"
        await change(database, delivery_id, f"status = '{status}', attempts = 3, {ended}")
        await request(database, delivery_id, clock)
        assert await resends.step() == 1
        assert await resends.step() == 0
        assert await state(database, delivery_id) == ("delivered", 4, 1, 0, 0)
    (got,) = receiver.got
    assert got.headers["X-Retry"] == "3"
    assert got.headers["webhook-id"] == json.loads(got.body)["id"] == delivery_id.partition(".")[0]
    (kept,) = await scene.attempts(database, delivery_id)
    assert (kept.attempt, kept.answer_status) == (4, 200)
    (row,) = await database.read(
        lambda tx: tx.all("SELECT a.request, d.ended_ms FROM attempts a, deliveries d WHERE a.seller_id = d.seller_id")
    )
    assert json.loads(row[0])["resend"] is True
    assert row[1] == (7 if status == "delivered" else clock.now_ms())


@pytest.mark.parametrize("status", ["exhausted", "superseded", "withdrawn", "delivered"])
async def test_failure_changes_no_status(database: Database, clock: MovableClock, status: str) -> None:
    """The attempt is recorded, and not repeated."""
    async with scene.receiver(scene.failing(500)) as receiver, workers(database, clock) as (_, resends):
        await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        await change(database, delivery_id, f"status = '{status}', attempts = 3, ended_ms = 7")
        await request(database, delivery_id, clock)
        assert await resends.step() == 1
        assert await resends.step() == 0
        assert await state(database, delivery_id) == (status, 4, 1, 0, 0)
        assert [kept.answer_status for kept in await scene.attempts(database, delivery_id)] == [500]


async def test_failure_does_not_move_the_schedule(database: Database, clock: MovableClock) -> None:
    """A pending delivery keeps the time of its next attempt, and all attempts of its schedule."""
    clock.freeze()
    async with (
        scene.receiver(scene.failing(500)) as receiver,
        workers(database, clock, webhook_retry_seconds=(60, 60)) as (deliveries, resends),
    ):
        await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        await scene.step(deliveries)
        (before,) = await scene.deliveries(database, receiver.got[0].order_and_version[0])
        for _ in range(5):
            await request(database, delivery_id, clock)
            assert await resends.step() == 1
        (after,) = await scene.deliveries(database, receiver.got[0].order_and_version[0])
        assert (after.status, after.next_ms, after.attempts) == ("pending", before.next_ms, 6)
        clock.advance(70_000)
        assert await scene.step(deliveries) == 1
        assert (await state(database, delivery_id))[:3] == ("pending", 7, 5)
        clock.advance(70_000)
        assert await scene.step(deliveries) == 1
        assert (await state(database, delivery_id))[:3] == ("exhausted", 8, 5)
    assert [got.headers["X-Retry"] for got in receiver.got] == [str(number) for number in range(8)]


async def test_resend_does_not_wait_for_earlier_versions(database: Database, clock: MovableClock) -> None:
    """A newer version is sent before the older one; the older one still is, afterwards."""
    clock.freeze()
    async with scene.receiver() as receiver, workers(database, clock) as (deliveries, resends):
        await scene.subscribe(database, receiver.url)
        first, second = await announced(database, clock, versions=2)
        await change(database, first, "next_ms = next_ms + 60000")
        await request(database, second, clock)
        assert await resends.step() == 1
        assert await state(database, second) == ("delivered", 1, 1, 0, 0)
        await scene.step(deliveries)
        assert (await state(database, first))[0] == "delivered", "a success makes the order's waiting deliveries due"
    assert [got.order_and_version[1] for got in receiver.got] == [2, 1]


async def test_success_lets_the_next_version_go(database: Database, clock: MovableClock) -> None:
    """If a resend delivers the version that others wait for, they are due."""
    clock.freeze()
    async with scene.receiver(scene.failing(500)) as receiver, workers(database, clock) as (deliveries, resends):
        await scene.subscribe(database, receiver.url)
        first, second = await announced(database, clock, versions=2)
        await scene.step(deliveries)
        receiver.answer = scene.ok
        await request(database, first, clock)
        await resends.step()
        await scene.step(deliveries)
        assert [(await state(database, one))[0] for one in (first, second)] == ["delivered", "delivered"]


async def test_success_ends_a_series_of_failures(database: Database, clock: MovableClock) -> None:
    """The subscription no longer counts as failing, and its other deliveries are due."""
    async with scene.receiver(scene.failing(500)) as receiver, workers(database, clock) as (deliveries, resends):
        await scene.subscribe(database, receiver.url)
        (one,), (other,) = await announced(database, clock), await announced(database, clock)
        await scene.step(deliveries)
        receiver.answer = scene.ok
        await request(database, one, clock)
        await resends.step()
        row = await database.read(lambda tx: tx.one("SELECT failing_since_ms FROM subscriptions"))
        assert row is not None
        assert row[0] is None
        assert await scene.step(deliveries) == 1
        assert (await state(database, other))[0] == "delivered"


async def test_resend_waits_for_an_attempt_of_the_schedule(database: Database, clock: MovableClock) -> None:
    """It is not sent at the same time, and not lost."""
    ended = asyncio.Event()

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        await ended.wait()
        return web.Response(status=500)

    async with scene.receiver(answer) as receiver, workers(database, clock) as (deliveries, resends):
        await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        assert await deliveries.start_due() == 1
        await scene.until(lambda: len(receiver.got) == 1)
        await request(database, delivery_id, clock)
        assert await resends.start_due() == 0
        ended.set()
        await deliveries.settle()
        assert await resends.step() == 1
        assert await state(database, delivery_id) == ("pending", 2, 1, 0, 0)


async def test_the_schedule_waits_for_a_resend(database: Database, clock: MovableClock) -> None:
    """A due delivery is not claimed while it is being resent."""
    ended = asyncio.Event()

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        await ended.wait()
        return web.Response(status=500)

    async with scene.receiver(answer) as receiver, workers(database, clock) as (deliveries, resends):
        await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        await request(database, delivery_id, clock)
        assert await resends.start_due() == 1
        assert await deliveries.start_due() == 0
        ended.set()
        await resends.settle()
        assert await deliveries.step() == 1
        assert await state(database, delivery_id) == ("pending", 2, 1, 0, 0)


@pytest.mark.on_postgres
async def test_resend_gets_the_next_slot_of_a_busy_receiver(database: Database, clock: MovableClock) -> None:
    """It waits while all slots are in use, and claims that were given up count as no attempt."""
    ended = asyncio.Event()

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        await ended.wait()
        return web.Response()

    async with (
        scene.receiver(answer) as receiver,
        workers(database, clock, webhook_concurrency_max=1) as (deliveries, resends),
    ):
        await scene.subscribe(database, receiver.url)
        await announced(database, clock)
        assert await deliveries.start_due() == 1
        await scene.until(lambda: len(receiver.got) == 1)
        (delivery_id,) = await announced(database, clock)
        await change(database, delivery_id, "status = 'exhausted', attempts = 11, ended_ms = 7")
        await request(database, delivery_id, clock)
        with skipped_waits(database):
            assert await resends.step() == 1
        assert await state(database, delivery_id) == ("exhausted", 11, 0, 1, 0)
        assert len(receiver.got) == 1
        assert await resends.start_due() == 1
        ended.set()
        await resends.settle()
        await deliveries.settle()
        assert await state(database, delivery_id) == ("delivered", 12, 1, 0, 0)


async def test_request_during_a_resend_is_not_lost(database: Database, clock: MovableClock) -> None:
    """Two requests within one millisecond make one attempt or two; one during an attempt makes another."""
    clock.freeze()
    ended = asyncio.Event()

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        await ended.wait()
        return web.Response()

    async with scene.receiver(answer) as receiver, workers(database, clock) as (_, resends):
        await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        await request(database, delivery_id, clock)
        await request(database, delivery_id, clock)
        assert await resends.start_due() == 1
        await request(database, delivery_id, clock)
        assert await resends.start_due() == 0
        ended.set()
        await resends.settle()
        assert (await state(database, delivery_id))[3] == 1
        assert await resends.step() == 1
        assert await resends.step() == 0
        assert await state(database, delivery_id) == ("delivered", 2, 2, 0, 0)


async def test_killed_between_sending_and_recording(database: Database, clock: MovableClock) -> None:
    """After the claim has expired, the notification is sent again; the attempt that was lost has a number."""
    wall = MovableClock()
    async with scene.receiver() as receiver, workers(database, clock, wall=wall) as (_, resends):
        await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        await change(database, delivery_id, "status = 'exhausted', attempts = 11, ended_ms = 7")
        await request(database, delivery_id, clock)
        # A node claims, sends, and is killed.
        subscription_id = delivery_id.partition(".")[2]
        now_ms = wall.now_ms()

        async def claim(tx: Transaction) -> list[Resend]:
            target = await store.target(tx, scene.SELLER, subscription_id)
            assert target is not None
            times = Claim(clock.now_ms(), now_ms, now_ms + LEASE_MS, limit=5)
            return await resend_store.claim(tx, scene.SELLER, subscription_id, target, times)

        assert len(await database.write(claim)) == 1
        assert await resends.step() == 0
        wall.advance(LEASE_MS + 1)
        assert await resends.step() == 1
        assert await state(database, delivery_id) == ("delivered", 13, 2, 0, 0)
        assert [kept.attempt for kept in await scene.attempts(database, delivery_id)] == [13]


async def test_late_success_of_an_expired_claim_counts(database: Database, clock: MovableClock) -> None:
    """A node that records after its claim expired neither releases the claim of another nor loses a request."""
    wall = MovableClock()
    answers = [asyncio.Event(), asyncio.Event()]

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        number = len(receiver.got) - 1
        await answers[number].wait()
        return web.Response(status=(200, 500)[number])

    async with (
        scene.receiver(answer) as receiver,
        workers(database, clock, wall=wall) as (_, slow),
        workers(database, clock, wall=wall) as (_, other),
    ):
        await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        await change(database, delivery_id, "status = 'superseded', attempts = 5, ended_ms = 7")
        await request(database, delivery_id, clock)
        assert await slow.start_due() == 1
        await scene.until(lambda: len(receiver.got) == 1)
        wall.advance(LEASE_MS + 1)
        assert await other.start_due() == 1
        await scene.until(lambda: len(receiver.got) == 2)
        answers[0].set()
        await slow.settle()
        assert await state(database, delivery_id) == ("delivered", 7, 2, 0, 1)
        answers[1].set()
        await other.settle()
        assert await state(database, delivery_id) == ("delivered", 7, 2, 0, 0)


async def test_unavailable_database_delays_the_recording(database: Database, clock: MovableClock) -> None:
    """The attempt is recorded when the database is back, without being made again."""
    faulty = FaultyDatabase(database)

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        faulty.fault = Unavailable("the database is away")
        asyncio.get_running_loop().call_later(0.3, setattr, faulty, "fault", None)
        return web.Response()

    async with scene.receiver(answer) as receiver, workers(faulty, clock) as (_, resends):
        await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        await request(database, delivery_id, clock)
        with skipped_waits(database):
            await resends.step()
        assert await state(database, delivery_id) == ("delivered", 1, 1, 0, 0)
    assert len(receiver.got) == 1


async def test_concurrent_workers_make_one_attempt(database: Database, clock: MovableClock) -> None:
    """Of each requested resend, whatever the number of nodes."""
    async with (
        scene.receiver() as receiver,
        workers(database, clock) as (_, one),
        workers(database, clock) as (_, other),
    ):
        await scene.subscribe(database, receiver.url)
        ids = [(await announced(database, clock))[0] for _ in range(6)]
        for delivery_id in ids:
            await request(database, delivery_id, clock)
        while sum(await asyncio.gather(one.step(), other.step())):
            pass
        assert {await state(database, delivery_id) for delivery_id in ids} == {("delivered", 1, 1, 0, 0)}
    assert len(receiver.got) == 6


@pytest.mark.on_postgres
async def test_paused_subscription_gets_its_resend_on_resume(database: Database, clock: MovableClock) -> None:
    """A request that was accepted before the pause waits, and makes the worker do nothing."""
    async with scene.receiver() as receiver, workers(database, clock) as (_, resends):
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        await request(database, delivery_id, clock)
        await database.write(lambda tx: pausing.pause(tx, subscription_id, "operator", 1))
        assert await resends.step() == 0
        assert (await state(database, delivery_id))[3] == 1
        await database.write(lambda tx: pausing.resume(tx, subscription_id))
        assert await resends.step() == 1
        assert (await state(database, delivery_id))[0] == "delivered"


@pytest.mark.on_postgres
async def test_ended_subscription_drops_its_requests(database: Database, clock: MovableClock) -> None:
    """Nothing is sent, and the worker does not find them again."""
    async with scene.receiver() as receiver, workers(database, clock) as (_, resends):
        await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        await request(database, delivery_id, clock)
        await database.write(lambda tx: tx.run("UPDATE subscriptions SET deleted_ms = 1, paused_ms = 1"))
        assert await resends.step() == 0
        assert await state(database, delivery_id) == ("pending", 0, 0, 0, 0)
    assert receiver.got == []


async def test_node_without_the_key_leaves_the_request(database: Database, clock: MovableClock) -> None:
    """Another node, or this one after it gets the key, makes the attempt."""
    other_key = Keys(2, {2: b"o" * 32})
    async with scene.receiver() as receiver, workers(database, clock, keys=other_key) as (_, resends):
        await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        await request(database, delivery_id, clock)
        assert await resends.step() == 0
        assert await state(database, delivery_id) == ("pending", 0, 0, 1, 0)


@pytest.mark.on_postgres
async def test_consent_notifications_are_resent(database: Database, clock: MovableClock) -> None:
    """Those of topic mp-connect, with the same body."""
    async with scene.receiver() as receiver, workers(database, clock) as (deliveries, resends):
        await scene.subscribe(database, receiver.url, topic="mp-connect")
        now_ms = clock.now_ms()

        async def consent(tx: Transaction) -> None:
            await outbox.announce_connect(
                tx,
                seller_id=scene.SELLER,
                application_id=scene.APPLICATION,
                action="application.authorized",
                now_ms=now_ms,
            )

        await database.write(consent)
        await scene.step(deliveries)
        row = await database.read(lambda tx: tx.one("SELECT delivery_id FROM deliveries"))
        assert row is not None
        await request(database, row[0], clock)
        assert await resends.step() == 1
    first, second = receiver.got
    assert (first.body, first.headers["X-Request-Id"]) == (second.body, second.headers["X-Request-Id"])


async def test_the_worker_of_a_node_resends_on_request(database: Database, clock: MovableClock) -> None:
    """The running worker is notified; it ends with the node."""
    stop = asyncio.Event()
    async with scene.receiver() as receiver:
        await scene.subscribe(database, receiver.url)
        context = WorkerContext(database, Settings(), clock, scene.KEYS, loopback_allowed=True)
        running = asyncio.create_task(run(context, stop))
        (delivery_id,) = await announced(database, clock)
        await scene.until(lambda: len(receiver.got) == 1)
        await request(database, delivery_id, clock)
        await scene.until(lambda: len(receiver.got) == 2)
        stop.set()
        database.signals.stop()
        await running
        database.signals.stopping = False
    assert [got.headers["X-Retry"] for got in receiver.got] == ["0", "1"]


async def test_replayed_versions_are_sent_in_order(database: Database, clock: MovableClock) -> None:
    """Ascending, after a newer one was delivered, with a schedule that starts anew."""
    clock.freeze()
    async with (
        scene.receiver(scene.failing(500)) as receiver,
        workers(database, clock, webhook_retry_seconds=(1,)) as (deliveries, _),
    ):
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        ids = await announced(database, clock, versions=4)
        for delivery_id in ids[:3]:
            await change(database, delivery_id, "status = 'exhausted', attempts = 11, ended_ms = 7")
        await change(database, ids[3], "status = 'delivered', attempts = 1, ended_ms = 7")
        now_ms = clock.now_ms()

        async def replay(tx: Transaction) -> int:
            count, then = await replaying.replay_step(tx, subscription_id, 0, now_ms, replaying.Cursor())
            assert then is not None or count == 3
            return count

        assert await database.write(replay) == 3
        await scene.step(deliveries)
        assert [got.order_and_version[1] for got in receiver.got] == [1]
        receiver.answer = scene.ok
        clock.advance(2_000)
        await scene.step(deliveries)
        assert [got.order_and_version[1] for got in receiver.got] == [1, 1, 2, 3]
        assert [(await state(database, delivery_id))[:3] for delivery_id in ids] == [
            ("delivered", 13, 11),
            ("delivered", 12, 11),
            ("delivered", 12, 11),
            ("delivered", 1, 0),
        ]
    assert [got.headers["X-Retry"] for got in receiver.got] == ["11", "12", "11", "11"]


async def test_steps_of_a_replay_keep_the_order(
    database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step makes a version pending before an earlier one."""
    monkeypatch.setattr(replaying, "STEP_ROWS_MAX", 2)
    subscription_id, _ = await scene.subscribe(database, "https://shop.example/hooks")
    orders = [await announced(database, clock, versions=3) for _ in range(3)]
    for ids in orders:
        for delivery_id in ids:
            await change(database, delivery_id, "status = 'exhausted', ended_ms = 7")
    cursor: replaying.Cursor | None = replaying.Cursor()
    counts = []
    while cursor is not None:
        step = partial(replaying.replay_step, subscription_id=subscription_id, since_ms=0, now_ms=1, begin=cursor)
        count, cursor = await database.write(step)
        counts.append(count)
        for ids in orders:
            statuses = [(await state(database, delivery_id))[0] for delivery_id in ids]
            assert statuses == sorted(statuses, reverse=True), "pending ones come first"
    assert (sum(counts), max(counts)) == (9, 2)


async def test_replay_ends_although_attempts_fail_meanwhile(
    database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delivery that is exhausted again is not replayed twice by one request."""
    monkeypatch.setattr(replaying, "STEP_ROWS_MAX", 1)
    subscription_id, _ = await scene.subscribe(database, "https://shop.example/hooks")
    ids = [(await announced(database, clock))[0] for _ in range(3)]
    cursor: replaying.Cursor | None = replaying.Cursor()
    total = 0
    while cursor is not None:
        for delivery_id in ids:
            await change(database, delivery_id, "status = 'exhausted', ended_ms = 7")
        step = partial(replaying.replay_step, subscription_id=subscription_id, since_ms=0, now_ms=1, begin=cursor)
        count, cursor = await database.write(step)
        total += count
        assert total <= len(ids)
    assert total == len(ids)


@pytest.mark.on_postgres
async def test_replay_during_a_resend_waits_for_it(database: Database, clock: MovableClock) -> None:
    """The schedule claims the delivery after the attempt; its success counts."""
    ended = asyncio.Event()

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        await ended.wait()
        return web.Response()

    async with scene.receiver(answer) as receiver, workers(database, clock) as (deliveries, resends):
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        await change(database, delivery_id, "status = 'exhausted', attempts = 11, ended_ms = 7")
        await request(database, delivery_id, clock)
        assert await resends.start_due() == 1
        now_ms = clock.now_ms()
        await database.write(lambda tx: replaying.replay_step(tx, subscription_id, 0, now_ms, replaying.Cursor()))
        assert await state(database, delivery_id) == ("pending", 12, 12, 1, 1)
        assert await deliveries.start_due() == 0
        ended.set()
        await resends.settle()
        assert await deliveries.start_due() == 0
        assert await state(database, delivery_id) == ("delivered", 12, 12, 0, 0)
    assert len(receiver.got) == 1


@pytest.mark.parametrize("attempts", [0, 1])
async def test_retention_keeps_what_is_being_resent(database: Database, clock: MovableClock, attempts: int) -> None:
    """With its attempts. Then the delivery is deleted with all attempts, those of resends too."""
    clock.freeze()
    async with scene.receiver(scene.failing(500)) as receiver, workers(database, clock) as (deliveries, resends):
        await scene.subscribe(database, receiver.url)
        (delivery_id,) = await announced(database, clock)
        if attempts:
            await scene.step(deliveries)
        await change(database, delivery_id, "status = 'exhausted', ended_ms = 7")
        await request(database, delivery_id, clock)
        prune, now_ms = retention.prune_deliveries, clock.now_ms()
        assert await database.write(lambda tx: prune(tx, scene.SELLER, now_ms, 100)) == 0
        assert await resends.step() == 1
        assert len(await scene.attempts(database, delivery_id)) == attempts + 1
        assert await database.write(lambda tx: prune(tx, scene.SELLER, now_ms, 100)) == attempts + 2
        assert await scene.attempts(database, delivery_id) == []


async def test_failure_of_one_worker_ends_the_other(database: Database, clock: MovableClock) -> None:
    """The exception reaches the supervisor, which restarts both."""

    class Failing(JobWorker[tuple[str, int], Resend]):
        async def run(self, stop: asyncio.Event) -> None:  # noqa: ARG002  # it ends at once
            raise Unavailable("the database is away")

    async with workers(database, clock) as (deliveries, resends):
        failing = Failing(resends._context, resends._job)
        with pytest.raises(Unavailable):
            await run_together(asyncio.Event(), deliveries, failing)
        assert not [task for task in asyncio.all_tasks() if "JobWorker.run" in repr(task)]
