"""Refunds that the acquirer has not decided at once: answered `processing`, asked for again, ended by the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

from parties import other_seller
from paydesk.core.clock import MovableClock, SystemClock
from paydesk.health.clock import WatchedClock
from paydesk.http import three_phase
from paydesk.invariants import check
from paydesk.payments import refund_store
from paydesk.payments import refunds as refunding
from paydesk.payments.acquirer import Approved, Declined, NotSent, Outcome, Unknown
from paydesk.payments.jobs import next_attempt_ms
from paydesk.payments.refund_store import PAUSES_SECONDS
from paydesk.settings import Settings
from paydesk.storage.database import Database, Unavailable
from refund_scene import (
    LATE,
    LATE_DECLINED,
    LOST,
    NOT_SENT,
    UNHEARD,
    Teller,
    books_agree,
    claims_run_out,
    only,
    paid,
    refund,
    told,
    work,
    worker,
)
from service import Service, running

HOUR_MS, SECOND_MS = 3_600_000, 1000
QUICK, PATIENT = (Settings(refund_answer_seconds=seconds) for seconds in (1, 60))


@pytest.fixture
def frozen() -> MovableClock:
    """A clock that only a test moves."""
    clock = MovableClock()
    clock.freeze()
    return clock


@pytest.fixture
async def quiet(database: Database, frozen: MovableClock) -> AsyncIterator[Service]:
    """A service without workers, and the simulated acquirer."""
    async with running(database, clock=frozen, workers=False) as service:
        yield service


@pytest.fixture
def teller() -> Teller:
    """An acquirer whose word the test gives."""
    return Teller()


@pytest.fixture
async def asking(database: Database, frozen: MovableClock, teller: Teller) -> AsyncIterator[Service]:
    """A service without workers that asks the teller, who has a minute for an answer."""
    state = {"acquirers": teller.acquirers}
    async with running(database, clock=frozen, settings=PATIENT, workers=False, state=state) as service:
        yield service


@pytest.mark.parametrize("amount", [LOST, UNHEARD, NOT_SENT])
async def test_what_nobody_heard_of_is_asked_for_again(quiet: Service, amount: str) -> None:
    """201 `processing`, nothing told; then the worker's answer moves the order once, and the stored 201 stays."""
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
    assert (await told(quiet, order_id))[-1] == ("order.refunded", [shown])
    assert (await refund(quiet, order_id, key="key")).raw == reply.raw
    assert await work(quiet) == 0
    await books_agree(quiet.database)


async def test_a_decline_that_comes_late_is_told(quiet: Service, frozen: MovableClock) -> None:
    """The refund is `failed` in a new version with a notification, the stored 201 stays, the amount is free again."""
    order_id = await paid(quiet, LATE_DECLINED)
    reply = await refund(quiet, order_id, "99000.00", key="key")
    assert only(reply)["status"] == "processing"
    frozen.advance(30 * SECOND_MS)
    assert await work(quiet) == 1
    order = await quiet.get(order_id)
    (shown,) = order["transactions"]["refunds"]
    assert (order["status"], order["status_detail"], order["version"]) == ("processed", "processed", 4)
    assert (shown["status"], shown["amount"]) == ("failed", "99000.00")
    assert (await told(quiet, order_id))[-1] == ("order.refund_failed", [shown])
    assert (await refund(quiet, order_id, "99000.00", key="key")).raw == reply.raw
    again = await refund(quiet, order_id)
    assert (again.status, only(again)["amount"]) == (201, LATE_DECLINED)
    await books_agree(quiet.database)


async def test_what_is_under_way_is_spoken_for(quiet: Service, frozen: MovableClock) -> None:
    """A whole refund, or a part that no longer fits, waits; a part that fits goes beside it."""
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
    await books_agree(quiet.database)


async def test_an_acquirer_that_takes_its_time(database: Database, teller: Teller) -> None:
    """The till is answered `processing` when its time is up; the worker has longer, and asks under the same key."""
    teller.closed = True
    async with running(database, settings=QUICK, workers=False, state={"acquirers": teller.acquirers}) as service:
        order_id = await paid(service)
        reply = await refund(service, order_id)
        assert (reply.status, only(reply)["status"]) == (201, "processing")
        teller.closed = False
        assert await work(service, teller=teller) == 1
        assert teller.asked == [only(reply)["id"]] * 2
        assert (await service.get(order_id))["status"] == "refunded"
    assert await check.check(database) == []


async def test_a_repeat_waits_for_the_answer(asking: Service, teller: Teller) -> None:
    """It is given the same bytes, and says that it is one; another request with the key is refused without waiting."""
    order_id = await paid(asking)
    teller.closed = True
    first = asyncio.create_task(refund(asking, order_id, "5.00", key="key"))
    await teller.was_asked.wait()
    repeats = [asyncio.create_task(refund(asking, order_id, "5.00", key="key")) for _ in range(3)]
    other = await refund(asking, order_id, key="key")
    assert (other.status, other.code) == (409, "idempotency_key_already_used")
    teller.opens.set()
    answered = await first
    assert only(answered)["status"] == "processed"
    for repeat in await asyncio.gather(*repeats):
        assert (repeat.status, repeat.raw) == (201, answered.raw)
        assert repeat.headers["x-idempotent-replayed"] == "true"
    assert len(teller.asked) == 1


async def test_a_repeat_does_not_wait_for_ever(
    asking: Service, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """423, and the key is as good as before."""
    monkeypatch.setattr(three_phase, "REPEAT_WAITS_SECONDS_MAX", 0.1)
    order_id = await paid(asking)
    teller.closed = True
    first = asyncio.create_task(refund(asking, order_id, key="key"))
    await teller.was_asked.wait()
    repeat = await refund(asking, order_id, key="key")
    assert (repeat.status, repeat.code) == (423, "resource_locked")
    teller.opens.set()
    assert (await refund(asking, order_id, key="key")).raw == (await first).raw


@pytest.mark.parametrize(
    ("outcome", "status", "refunded"),
    [(Approved("1", 500), "processed", "5.00"), (Declined("high_risk"), "failed", None)],
    ids=["approved", "declined"],
)
async def test_an_answer_is_fixed_once(
    asking: Service, teller: Teller, outcome: Outcome, status: str, refunded: str | None
) -> None:
    """A worker that took the refund up has answered `processing`; who asked first brings no other answer.

    Neither is the order moved twice, nor the acquirer's decision lost.
    """
    order_id = await paid(asking)
    teller.closed, teller.words = True, [outcome]
    first = asyncio.create_task(refund(asking, order_id, "5.00", key="key"))
    await teller.was_asked.wait()
    await claims_run_out(asking)
    assert await work(asking, teller=Teller(words=[outcome])) == 1
    repeat = await refund(asking, order_id, "5.00", key="key")
    teller.opens.set()
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
async def test_whoever_asked_first_may_still_bring_the_decision(
    asking: Service, teller: Teller, outcome: Outcome, action: str
) -> None:
    """The worker has answered and knows nothing yet: the decision moves the order, and the answer stays."""
    order_id = await paid(asking)
    teller.closed, teller.words = True, [outcome]
    first = asyncio.create_task(refund(asking, order_id, "5.00"))
    await teller.was_asked.wait()
    await claims_run_out(asking)
    assert await work(asking, teller=Teller(words=[Unknown("no answer")])) == 1
    teller.opens.set()
    assert only(await first)["status"] == "processing"
    assert (await told(asking, order_id))[-1][0] == action
    assert await check.check(asking.database) == []


async def test_a_refund_whose_node_died(asking: Service, teller: Teller, frozen: MovableClock) -> None:
    """While its claim holds nobody takes it up; then the worker answers for it and brings it to its end."""
    order_id = await paid(asking)
    teller.closed = True
    lost = asyncio.create_task(refund(asking, order_id, key="key"))
    await teller.was_asked.wait()
    assert await work(asking, teller=Teller()) == 0
    later = MovableClock()
    later.advance((PATIENT.refund_answer_seconds + 2) * SECOND_MS)
    taker = Teller(words=[Unknown("no answer")])
    assert await work(asking, teller=taker, wall=later) == 1
    assert taker.asked == teller.asked
    reply = await refund(asking, order_id, key="key")
    assert (reply.status, only(reply)["status"]) == (201, "processing")
    assert await work(asking, teller=taker, wall=later) == 0
    frozen.advance(10 * SECOND_MS)
    assert await work(asking, teller=taker, wall=later) == 1
    assert (await asking.get(order_id))["status"] == "refunded"
    teller.opens.set()
    assert (await lost).raw == reply.raw


def test_the_pauses_grow() -> None:
    """At once after the first attempt, and never more than ten minutes."""
    pauses_ms = [next_attempt_ms(attempts, 0, PAUSES_SECONDS) for attempts in range(1, 10)]
    assert pauses_ms == [0, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 600_000, 600_000]


async def test_it_is_asked_again_in_growing_pauses(asking: Service, teller: Teller, frozen: MovableClock) -> None:
    """To the second, under one key."""
    order_id = await paid(asking)
    teller.words = [Unknown("no answer")] * 8
    assert only(await refund(asking, order_id))["status"] == "processing"
    for pause in (0, 10, 30, 60, 120, 300, 600):
        if pause:
            frozen.advance(pause * SECOND_MS - 1)
            assert await work(asking, teller=teller) == 0
            frozen.advance(1)
        assert await work(asking, teller=teller) == 1, pause
    assert len(set(teller.asked)) == 1
    assert len(teller.asked) == 8


async def test_what_never_left_fails_after_a_day(asking: Service, teller: Teller, frozen: MovableClock) -> None:
    """Nothing can have happened: the seller is told, and may ask anew. What may have left is asked for for ever."""
    never, perhaps = await paid(asking), await paid(asking)
    teller.words = [NotSent("the line is down"), Unknown("no answer")]
    for order_id in (never, perhaps):
        assert only(await refund(asking, order_id))["status"] == "processing"
    down = Teller(words=[NotSent("the line is down")] * 6)
    for hours, refunds in ((0, ["processing"] * 2), (23, ["processing"] * 2), (1, ["failed", "processing"])):
        frozen.advance(hours * HOUR_MS)
        assert await work(asking, teller=down) == 2
        shown = [(await asking.get(order_id))["transactions"]["refunds"] for order_id in (never, perhaps)]
        assert [one["status"] for (one,) in shown] == refunds, hours
    assert (await told(asking, never))[-1][0] == "order.refund_failed"
    again = await refund(asking, never)
    assert (only(again)["status"], again.body["status"]) == ("processed", "refunded")
    assert await check.check(asking.database) == []


async def test_a_live_refund_waits_for_an_acquirer(database: Database, frozen: MovableClock) -> None:
    """Where there is none any more, it has not been sent, and is asked for when there is one again."""
    configured = Settings(acquirer="simulator")
    async with running(database, clock=frozen, settings=configured, workers=False) as service:
        order_id, token = await paid(service, LOST, live=True), service.live_access_token
        assert only(await refund(service, order_id, token=token))["status"] == "processing"
        assert await work(service) == 1
        frozen.advance(10 * SECOND_MS)
        assert await work(service, settings=configured) == 1
        order = (await service.request("GET", f"/v1/orders/{order_id}", token=token)).body
        assert order["status"] == "refunded"
    await books_agree(database)


async def test_a_claim_is_one_worker_s(asking: Service, teller: Teller) -> None:
    """Of several workers one asks; a slow answer holds up no other refund."""
    orders = [await paid(asking) for _ in range(2)]
    teller.words = [Unknown("no answer")] * 2
    for order_id in orders:
        await refund(asking, order_id)
    slow = Teller(closed=True)
    workers = [worker(asking, teller=slow) for _ in range(3)]
    assert sum(await asyncio.gather(*(one.start_due() for one in workers))) == 2
    third = await paid(asking)
    teller.words = [Unknown("no answer")]
    await refund(asking, third)
    assert await work(asking) == 1
    assert (await asking.get(third))["status"] == "refunded"
    slow.opens.set()
    for one in workers:
        await one.settle()
    assert sorted(slow.asked) == sorted({*slow.asked})
    assert [(await asking.get(order_id))["status"] for order_id in orders] == ["refunded"] * 2


CUT_OFF = "job_failed"


async def test_what_a_defect_cut_off_is_asked_for_again(asking: Service, teller: Teller) -> None:
    """When its claim has run out; until then the refund is under way."""
    order_id = await paid(asking)
    teller.words = [Unknown("no answer")]
    assert only(await refund(asking, order_id))["status"] == "processing"
    for error, level in ((RuntimeError("a defect"), "error"), (Unavailable("the database is away"), "warning")):
        with structlog.testing.capture_logs() as logged:
            assert await work(asking, teller=Teller(words=[error])) == 1
        assert [line["log_level"] for line in logged if line["event"] == CUT_OFF] == [level]
        assert await work(asking, teller=teller) == 0
        await claims_run_out(asking)
    assert await work(asking, teller=teller) == 1
    assert (await asking.get(order_id))["status"] == "refunded"


async def test_the_worker_of_a_service_is_woken(database: Database) -> None:
    """A service with its workers brings to an end what nobody heard of, by itself."""
    async with running(database) as service:
        order_id = await paid(service, LOST)
        assert only(await refund(service, order_id))["status"] == "processing"
        async with asyncio.timeout(20):
            while (await service.get(order_id))["status"] != "refunded":  # noqa: ASYNC110 - only receivers are told
                await asyncio.sleep(0.01)
    await books_agree(database)


async def test_another_seller_s_refunds_are_their_own(quiet: Service) -> None:
    """The worker goes from seller to seller."""
    stranger = await other_seller(quiet)
    orders = [(one, await paid(one, LOST)) for one in (quiet, stranger)]
    for one, order_id in orders:
        assert only(await refund(one, order_id))["status"] == "processing"
    assert await work(quiet) == 2
    assert {(await one.get(order_id))["status"] for one, order_id in orders} == {"refunded"}


async def test_a_clock_that_jumps_while_it_is_begun_claims_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever then dies would hold the refund as long as the clock was off: nothing is done, and the key is free."""
    machine, reserve = Machine(), refund_store.reserve
    right_ms = machine.ms
    watched = WatchedClock(lambda: machine.ms * 1_000_000, lambda: 0)

    async def jumping(*of_what: Any) -> Any:
        machine.ms = right_ms + 28 * HOUR_MS
        return await reserve(*of_what)

    async with running(database, clock=watched, workers=False) as service:
        order_id = await paid(service)
        monkeypatch.setattr(refunding, "WALL", machine)
        monkeypatch.setattr(refund_store, "reserve", jumping)
        reply = await refund(service, order_id, key="key")
        assert (reply.status, reply.code) == (503, "service_unavailable")
        monkeypatch.setattr(refund_store, "reserve", reserve)
        machine.ms = right_ms
        again = await refund(service, order_id, key="key")
        assert again.status == 201, again
        assert only(again)["status"] == "processed"
        assert "x-idempotent-replayed" not in again.headers


class Machine:
    """A machine whose clock a test sets."""

    def __init__(self) -> None:
        self.ms = SystemClock().now_ms()

    def now_ms(self) -> int:
        """What it shows."""
        return self.ms
