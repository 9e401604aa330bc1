"""Refunds that the acquirer does not decide at once: answered with `processing`, retried and ended by the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

from accounts import other_seller
from paydesk.core.clock import MovableClock, SystemClock
from paydesk.engine.invariants import check
from paydesk.engine.payments.acquirer import Approved, Declined, NotSent, Outcome, Unknown
from paydesk.engine.payments.jobs import next_attempt_ms
from paydesk.engine.payments.refunds.attempts import PAUSES_SECONDS
from paydesk.platform import idempotency
from paydesk.platform.health.clock import WatchedClock
from paydesk.platform.http import three_phase
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Unavailable
from refund_scene import (
    LATE,
    LATE_DECLINED,
    LOST,
    NOT_SENT,
    UNHEARD,
    Refunder,
    expire_leases,
    ledgers_agree,
    notifications,
    only,
    paid,
    refund,
    work,
    worker,
)
from service import Service, running
from skipped_waits import skipped_waits

HOUR_MS, SECOND_MS = 3_600_000, 1000
QUICK, PATIENT = (Settings(refund_answer_seconds=seconds) for seconds in (1, 60))


@pytest.fixture
def frozen() -> MovableClock:
    """A frozen clock."""
    clock = MovableClock()
    clock.freeze()
    return clock


@pytest.fixture
async def quiet(database: Database, frozen: MovableClock) -> AsyncIterator[Service]:
    """A service without workers, with the simulated acquirer."""
    async with running(database, clock=frozen, workers=False) as service:
        yield service


@pytest.fixture
def refunder() -> Refunder:
    """An acquirer with scripted outcomes."""
    return Refunder()


@pytest.fixture
async def asking(database: Database, frozen: MovableClock, refunder: Refunder) -> AsyncIterator[Service]:
    """A service without workers, with the scripted acquirer and a minute for its response."""
    async with running(
        database, clock=frozen, settings=PATIENT, workers=False, acquirers=refunder.acquirers
    ) as service:
        yield service


@pytest.mark.parametrize("amount", [LOST, UNHEARD, NOT_SENT])
async def test_a_refund_with_a_lost_response_is_retried(quiet: Service, amount: str) -> None:
    """201 `processing` without a notification; the worker moves the order once; the stored 201 stays."""
    order_id = await paid(quiet, amount)
    reply = await refund(quiet, order_id, key="key")
    assert (reply.status, reply.body["status"], only(reply)["status"]) == (201, "processed", "processing")
    order = await quiet.get(order_id)
    assert (order["version"], order["transactions"]["refunds"]) == (3, [only(reply)])
    assert "refunded_amount" not in order["transactions"]["payments"][0]
    assert await work(quiet) == 1
    order = await quiet.get(order_id)
    (shown,) = order["transactions"]["refunds"]
    assert (order["status"], order["version"], shown["status"]) == ("refunded", 4, "processed")
    assert shown["id"] == only(reply)["id"]
    assert (await notifications(quiet, order_id))[-1] == ("order.refunded", [shown])
    assert (await refund(quiet, order_id, key="key")).raw == reply.raw
    assert await work(quiet) == 0
    await ledgers_agree(quiet.database)


async def test_a_late_decline_fails_the_refund(quiet: Service, frozen: MovableClock) -> None:
    """In a new version with a notification; the stored 201 stays, the amount can be refunded again."""
    order_id = await paid(quiet, LATE_DECLINED)
    reply = await refund(quiet, order_id, "99000.00", key="key")
    assert only(reply)["status"] == "processing"
    frozen.advance(30 * SECOND_MS)
    assert await work(quiet) == 1
    order = await quiet.get(order_id)
    (shown,) = order["transactions"]["refunds"]
    assert (order["status"], order["status_detail"], order["version"]) == ("processed", "processed", 4)
    assert (shown["status"], shown["amount"]) == ("failed", "99000.00")
    assert (await notifications(quiet, order_id))[-1] == ("order.refund_failed", [shown])
    assert (await refund(quiet, order_id, "99000.00", key="key")).raw == reply.raw
    again = await refund(quiet, order_id)
    assert (again.status, only(again)["amount"]) == (201, LATE_DECLINED)
    await ledgers_agree(quiet.database)


async def test_a_processing_refund_reserves_its_amount(quiet: Service, frozen: MovableClock) -> None:
    """A full refund, or a part that does not fit, is refused; a part that fits is made."""
    order_id = await paid(quiet, LATE)
    assert only(await refund(quiet, order_id, "50000.00"))["status"] == "processing"
    for amount in (None, LATE, "49900.35"):
        reply = await refund(quiet, order_id, amount, key=f"key-{amount}")
        assert (reply.status, reply.code) == (409, "refund_in_progress"), amount
        assert reply.details == [f"50000.00 of the remaining {LATE} is being refunded"]
    assert (await refund(quiet, order_id, "99900.99")).code == "refund_amount_exceeds"
    assert only(await refund(quiet, order_id, "49900.34"))["status"] == "processing"
    frozen.advance(30 * SECOND_MS)
    assert await work(quiet) == 2
    assert (await quiet.get(order_id))["status"] == "refunded"
    assert (await refund(quiet, order_id, key="key-None")).code == "order_already_refunded"
    await ledgers_agree(quiet.database)


async def test_a_slow_acquirer(database: Database, refunder: Refunder) -> None:
    """The request is answered with `processing` in time; the acquirer's answer is applied when it comes."""
    refunder.closed = True
    with skipped_waits(database):
        async with running(database, settings=QUICK, workers=False, acquirers=refunder.acquirers) as service:
            order_id = await paid(service)
            reply = await refund(service, order_id)
            assert (reply.status, only(reply)["status"]) == (201, "processing")
            assert await work(service, refunder=refunder) == 0, "the call goes on"
            refunder.opens.set()
            await service.until(order_id, "refunded")
            assert refunder.asked == [only(reply)["id"]]
    assert await check.check(database) == []


@pytest.mark.on_postgres
async def test_a_repeat_waits_for_the_response(asking: Service, refunder: Refunder) -> None:
    """It gets the same bytes with the replay header; another request with the key is rejected at once."""
    order_id = await paid(asking)
    refunder.closed = True
    first = asyncio.create_task(refund(asking, order_id, "5.00", key="key"))
    await refunder.was_asked.wait()
    repeats = [asyncio.create_task(refund(asking, order_id, "5.00", key="key")) for _ in range(3)]
    other = await refund(asking, order_id, key="key")
    assert (other.status, other.code) == (409, "idempotency_key_already_used")
    refunder.opens.set()
    answered = await first
    assert only(answered)["status"] == "processed"
    for repeat in await asyncio.gather(*repeats):
        assert (repeat.status, repeat.raw) == (201, answered.raw)
        assert repeat.headers["x-idempotent-replayed"] == "true"
    assert len(refunder.asked) == 1


@pytest.mark.on_postgres
async def test_a_repeat_waits_for_a_limited_time(
    asking: Service, refunder: Refunder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then 423, and the key can be retried."""
    monkeypatch.setattr(three_phase, "REPEAT_WAITS_SECONDS_MAX", 0.1)
    order_id = await paid(asking)
    refunder.closed = True
    first = asyncio.create_task(refund(asking, order_id, key="key"))
    await refunder.was_asked.wait()
    repeat = await refund(asking, order_id, key="key")
    assert (repeat.status, repeat.code) == (423, "resource_locked")
    refunder.opens.set()
    answered = await first
    assert (await refund(asking, order_id, key="key")).raw == answered.raw


@pytest.mark.parametrize(
    ("outcome", "status", "refunded"),
    [(Approved("1", 500), "processed", "5.00"), (Declined("high_risk"), "failed", None)],
    ids=["approved", "declined"],
)
async def test_a_response_is_stored_once(
    asking: Service, refunder: Refunder, outcome: Outcome, status: str, refunded: str | None
) -> None:
    """A worker has stored `processing`; the first request's later outcome does not replace it.

    The order moves once, and the acquirer's decision is not lost.
    """
    order_id = await paid(asking)
    refunder.closed, refunder.words = True, [outcome]
    first = asyncio.create_task(refund(asking, order_id, "5.00", key="key"))
    await refunder.was_asked.wait()
    await expire_leases(asking)
    assert await work(asking, refunder=Refunder(words=[outcome])) == 1
    repeat = await refund(asking, order_id, "5.00", key="key")
    refunder.opens.set()
    answered = await first
    assert (answered.status, only(answered)["status"]) == (201, "processing")
    assert repeat.raw == answered.raw
    order = await asking.get(order_id)
    assert [shown["status"] for shown in order["transactions"]["refunds"]] == [status]
    assert order["transactions"]["payments"][0].get("refunded_amount") == refunded
    assert order["version"] == 4
    assert await check.check(asking.database) == []


@pytest.mark.parametrize(
    ("outcome", "action"),
    [(Approved("1", 500), "order.refunded"), (Declined("high_risk"), "order.refund_failed")],
    ids=["approved", "declined"],
)
async def test_the_first_request_may_bring_the_decision(
    asking: Service, refunder: Refunder, outcome: Outcome, action: str
) -> None:
    """A worker has stored `processing`: the decision moves the order, the response stays."""
    order_id = await paid(asking)
    refunder.closed, refunder.words = True, [outcome]
    first = asyncio.create_task(refund(asking, order_id, "5.00"))
    await refunder.was_asked.wait()
    await expire_leases(asking)
    assert await work(asking, refunder=Refunder(words=[Unknown("no answer")])) == 1
    refunder.opens.set()
    assert only(await first)["status"] == "processing"
    assert (await notifications(asking, order_id))[-1][0] == action
    assert await check.check(asking.database) == []


async def test_the_refund_of_a_dead_node_is_continued(
    asking: Service, refunder: Refunder, frozen: MovableClock
) -> None:
    """Once its lease has expired, a worker stores its response and ends it."""
    order_id = await paid(asking)
    refunder.closed = True
    lost = asyncio.create_task(refund(asking, order_id, key="key"))
    await refunder.was_asked.wait()
    assert await work(asking, refunder=Refunder()) == 0
    later = MovableClock()
    later.advance((PATIENT.refund_answer_seconds + 2) * SECOND_MS)
    taker = Refunder(words=[Unknown("no answer")])
    assert await work(asking, refunder=taker, wall=later) == 1
    assert taker.asked == refunder.asked
    reply = await refund(asking, order_id, key="key")
    assert (reply.status, only(reply)["status"]) == (201, "processing")
    assert await work(asking, refunder=taker, wall=later) == 0
    frozen.advance(10 * SECOND_MS)
    assert await work(asking, refunder=taker, wall=later) == 1
    assert (await asking.get(order_id))["status"] == "refunded"
    refunder.opens.set()
    assert (await lost).raw == reply.raw


def test_pauses_grow() -> None:
    """None after the first attempt, and at most ten minutes."""
    pauses_ms = [next_attempt_ms(attempts, 0, PAUSES_SECONDS) for attempts in range(1, 10)]
    assert pauses_ms == [0, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 600_000, 600_000]


async def test_retries_after_growing_pauses(asking: Service, refunder: Refunder, frozen: MovableClock) -> None:
    """To the second, under one key."""
    order_id = await paid(asking)
    refunder.words = [Unknown("no answer")] * 8
    assert only(await refund(asking, order_id))["status"] == "processing"
    for pause in (0, 10, 30, 60, 120, 300, 600):
        if pause:
            frozen.advance(pause * SECOND_MS - 1)
            assert await work(asking, refunder=refunder) == 0
            frozen.advance(1)
        assert await work(asking, refunder=refunder) == 1, pause
    assert len(set(refunder.asked)) == 1
    assert len(refunder.asked) == 8


async def test_a_refund_never_sent_fails_after_a_day(asking: Service, refunder: Refunder, frozen: MovableClock) -> None:
    """The seller is notified and may request it anew. A refund that may have been sent is retried without end."""
    never, perhaps = await paid(asking), await paid(asking)
    refunder.words = [NotSent("the line is down"), Unknown("no answer")]
    for order_id in (never, perhaps):
        assert only(await refund(asking, order_id))["status"] == "processing"
    down = Refunder(words=[NotSent("the line is down")] * 6)
    for hours, refunds in ((0, ["processing"] * 2), (23, ["processing"] * 2), (1, ["failed", "processing"])):
        frozen.advance(hours * HOUR_MS)
        assert await work(asking, refunder=down) == 2
        shown = [(await asking.get(order_id))["transactions"]["refunds"] for order_id in (never, perhaps)]
        assert [one["status"] for (one,) in shown] == refunds, hours
    assert (await notifications(asking, never))[-1][0] == "order.refund_failed"
    again = await refund(asking, never)
    assert (only(again)["status"], again.body["status"]) == ("processed", "refunded")
    assert await check.check(asking.database) == []


@pytest.mark.on_postgres
async def test_a_live_refund_waits_for_an_acquirer(database: Database, frozen: MovableClock) -> None:
    """Without an acquirer it is not sent; it is retried once there is one."""
    configured = Settings(acquirer="simulator")
    async with running(database, clock=frozen, settings=configured, workers=False) as service:
        order_id, token = await paid(service, LOST, live=True), service.live_access_token
        assert only(await refund(service, order_id, token=token))["status"] == "processing"
        assert await work(service) == 1
        frozen.advance(10 * SECOND_MS)
        assert await work(service, settings=configured) == 1
        order = (await service.request("GET", f"/v1/orders/{order_id}", token=token)).body
        assert order["status"] == "refunded"
    await ledgers_agree(database)


async def test_a_claim_belongs_to_one_worker(asking: Service, refunder: Refunder) -> None:
    """Of several workers one asks; a slow response does not delay other refunds."""
    orders = [await paid(asking) for _ in range(2)]
    refunder.words = [Unknown("no answer")] * 2
    for order_id in orders:
        await refund(asking, order_id)
    slow = Refunder(closed=True)
    workers = [worker(asking, refunder=slow) for _ in range(3)]
    assert sum(await asyncio.gather(*(one.start_due() for one in workers))) == 2
    third = await paid(asking)
    refunder.words = [Unknown("no answer")]
    await refund(asking, third)
    assert await work(asking) == 1
    assert (await asking.get(third))["status"] == "refunded"
    slow.opens.set()
    for one in workers:
        await one.settle()
    assert sorted(slow.asked) == sorted({*slow.asked})
    assert [(await asking.get(order_id))["status"] for order_id in orders] == ["refunded"] * 2


CUT_OFF = "job_failed"


class Defect(BaseException):
    """A defect of the worker, not of an adapter."""


async def test_a_failed_job_is_retried(asking: Service, refunder: Refunder) -> None:
    """When its lease has expired; until then the refund is processing."""
    order_id = await paid(asking)
    refunder.words = [Unknown("no answer")]
    assert only(await refund(asking, order_id))["status"] == "processing"
    for error, level in ((Defect("a defect"), "error"), (Unavailable("the database is away"), "warning")):
        with structlog.testing.capture_logs() as logged:
            assert await work(asking, refunder=Refunder(words=[error])) == 1
        assert [line["log_level"] for line in logged if line["event"] == CUT_OFF] == [level]
        assert await work(asking, refunder=refunder) == 0
        await expire_leases(asking)
    assert await work(asking, refunder=refunder) == 1
    assert (await asking.get(order_id))["status"] == "refunded"


async def test_the_worker_of_a_service_is_notified(database: Database) -> None:
    """A service with workers ends a refund with a lost response."""
    async with running(database) as service:
        order_id = await paid(service, LOST)
        assert only(await refund(service, order_id))["status"] == "processing"
        await service.until(order_id, "refunded")
    await ledgers_agree(database)


async def test_refunds_of_several_sellers(quiet: Service) -> None:
    """The worker processes each seller's."""
    outsider = await other_seller(quiet)
    orders = [(one, await paid(one, LOST)) for one in (quiet, outsider)]
    for one, order_id in orders:
        assert only(await refund(one, order_id))["status"] == "processing"
    assert await work(quiet) == 2
    assert {(await one.get(order_id))["status"] for one, order_id in orders} == {"refunded"}


async def test_a_clock_jump_during_the_request_claims_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is reserved, and the key is free."""
    machine, check = Machine(), idempotency.check
    right_ms = machine.ms
    watched = WatchedClock(lambda: machine.ms * 1_000_000, lambda: 0)

    def jumping(*of_what: Any, **options: Any) -> str:
        machine.ms = right_ms + 28 * HOUR_MS
        return check(*of_what, **options)

    async with running(database, clock=watched, workers=False, wall=machine) as service:
        order_id = await paid(service)
        monkeypatch.setattr(idempotency, "check", jumping)
        reply = await refund(service, order_id, key="key")
        assert (reply.status, reply.code) == (503, "service_unavailable")
        monkeypatch.setattr(idempotency, "check", check)
        machine.ms = right_ms
        again = await refund(service, order_id, key="key")
        assert again.status == 201, again
        assert only(again)["status"] == "processed"
        assert "x-idempotent-replayed" not in again.headers


class Machine:
    """A machine with a settable clock."""

    def __init__(self) -> None:
        self.ms = SystemClock().now_ms()

    def now_ms(self) -> int:
        """Return the time."""
        return self.ms
