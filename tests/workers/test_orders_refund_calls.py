"""The acquirer's calls for refunds: each outlives its request, and none is repeated where that could refund twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.engine.payments.acquirer import Approved, Declined, NotSent, Outcome, Unknown
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.platform.http.three_phase import ThreePhaseRunner
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Unavailable
from refund_scene import (
    Refunder,
    alerts,
    expire_leases,
    notifications,
    only,
    paid,
    refund,
    work,
)
from service import Reply, Service, running
from skipped_waits import skipped_waits
from waiting import until_found

SECOND, MINUTE, DAY = 1000, 60_000, 86_400_000
REFUNDS_TWICE = Capabilities(idempotent=frozenset({"authorize", "confirm", "reverse"}))
WHOLE = Capabilities(partial_refunds=False)
LOST, SHUT = Unknown("the answer was lost"), NotSent("the line is down")
RESERVED = "SELECT refunding_minor, refunds FROM orders WHERE seller_id = $1 AND order_id = $2"
STATUS = "SELECT status FROM refunds WHERE seller_id = $1 ORDER BY refund_id"
DIFFERING = "SELECT occurrences FROM operator_events WHERE kind = 'acquirer_answer_differs'"
DUE = "UPDATE refunds SET next_ms = created_ms WHERE seller_id = $1 AND next_ms < 9999999999999"


@pytest.fixture
def refunder() -> Refunder:
    """An acquirer with scripted outcomes."""
    return Refunder()


@pytest.fixture
def frozen() -> MovableClock:
    """A frozen clock."""
    clock = MovableClock()
    clock.freeze()
    return clock


@pytest.fixture
async def shop(database: Database, frozen: MovableClock, refunder: Refunder) -> AsyncIterator[Service]:
    """A service without workers, whose refunds wait a second for an answer."""
    settings = Settings(refund_answer_seconds=1)
    async with running(
        database, clock=frozen, settings=settings, workers=False, acquirers=refunder.acquirers
    ) as service:
        yield service
    assert await check.check(database) == []


async def slow_refund(service: Service, order_id: str, **options: Any) -> Reply:
    """Request a refund that the acquirer doesn't answer in time; the wait is skipped."""
    with skipped_waits(service.database):
        reply = await refund(service, order_id, **options)
    assert (reply.status, only(reply)["status"]) == (201, "processing")
    return reply


async def statuses(service: Service) -> list[str]:
    """Return the statuses of the seller's refunds."""
    return [status for (status,) in await service.database.read(lambda tx: tx.all(STATUS, service.seller_id))]


async def is_answered(service: Service, status: str) -> None:
    """Return once the refund has the status."""

    async def is_so() -> bool:
        return await statuses(service) == [status]

    await until_found(is_so)


def kill() -> None:
    """End the calls at the acquirer and what waits for them, as if their node were killed."""
    killed = [task for task in asyncio.all_tasks() if "refund" in task.get_name() or "Attempt.request" in repr(task)]
    assert len(killed) == 2
    for task in killed:
        task.cancel()


@pytest.mark.on_postgres
@pytest.mark.parametrize(
    ("answer", "status", "event"),
    [
        (Approved("115019989861", 2490), "processed", "order.refunded"),
        (Declined("rejected_other_reason"), "failed", "order.refund_failed"),
    ],
)
async def test_an_answer_after_the_response_is_applied(
    shop: Service, refunder: Refunder, answer: Outcome, status: str, event: str
) -> None:
    """When it comes, with its notification; the stored response stays, and the acquirer is asked once."""
    refunder.closed, refunder.words = True, [answer]
    order_id = await paid(shop)
    reply = await slow_refund(shop, order_id, key="key")
    assert await work(shop, refunder=refunder) == 0, "the call goes on"
    refunder.opens.set()
    await is_answered(shop, status)
    assert (await notifications(shop, order_id))[-1][0] == event
    again = await refund(shop, order_id, key="key")
    assert again.raw == reply.raw
    assert refunder.asked == [only(reply)["id"]]
    assert await work(shop, refunder=refunder) == 0


async def test_a_call_that_ends_without_an_answer_is_repeated_by_the_worker(shop: Service, refunder: Refunder) -> None:
    """Under the same key, before its lease would have run out."""
    wall = MovableClock()
    wall.freeze()
    refunder.closed, refunder.words = True, [LOST]
    order_id = await paid(shop)
    reply = await slow_refund(shop, order_id)
    refunder.opens.set()
    await until_found(lambda: work(shop, refunder=refunder, wall=wall))
    assert await statuses(shop) == ["processed"]
    assert refunder.asked == [only(reply)["id"]] * 2


@pytest.mark.on_postgres
async def test_a_call_that_a_crash_cut_off_is_repeated_after_its_lease(shop: Service, refunder: Refunder) -> None:
    """Not while it may be under way; then under the same key."""
    refunder.closed = True
    order_id = await paid(shop)
    wall = MovableClock()
    reply = await slow_refund(shop, order_id)
    kill()
    refunder.closed = False
    assert await work(shop, refunder=refunder, wall=wall) == 0
    wall.advance(refunder.capabilities.answer_seconds * SECOND - 2 * SECOND)
    assert await work(shop, refunder=refunder, wall=wall) == 0
    wall.advance(10 * SECOND)
    assert await work(shop, refunder=refunder, wall=wall) == 1
    assert await statuses(shop) == ["processed"]
    assert refunder.asked == [only(reply)["id"]] * 2


@pytest.mark.on_postgres
async def test_a_request_without_a_response_gets_one_with_the_late_answer(
    shop: Service, refunder: Refunder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its response could not be stored; no worker would, because the refund has ended."""
    refunder.closed = True
    order_id = await paid(shop)

    async def fail(*_: object) -> None:
        raise Unavailable("the database is away")

    with monkeypatch.context() as away, skipped_waits(shop.database):
        away.setattr(ThreePhaseRunner, "_finish", fail)
        assert (await refund(shop, order_id, key="key")).status == 503
    refunder.opens.set()
    await is_answered(shop, "processed")
    reply = await refund(shop, order_id, key="key")
    assert (reply.status, only(reply)["status"], only(reply)["id"]) == (201, "processing", refunder.asked[0])
    assert len(refunder.asked) == 1


@pytest.mark.on_postgres
async def test_an_unanswered_refund_that_would_be_made_twice_is_left_to_a_person(
    shop: Service, frozen: MovableClock, refunder: Refunder
) -> None:
    """At once, and for good: nothing is sent again."""
    refunder.can, refunder.words = REFUNDS_TWICE, [LOST]
    order_id = await paid(shop)
    assert only(await refund(shop, order_id))["status"] == "processing"
    ((message, body),) = await alerts(shop, order_id)
    assert "the acquirer would make it again" in message
    assert body["refund_id"] in message
    for _ in range(30):
        frozen.advance(DAY)
        await work(shop, refunder=refunder)
    assert len(refunder.asked) == 1
    assert len(await alerts(shop, order_id)) == 1
    assert await statuses(shop) == ["processing"]


@pytest.mark.on_postgres
async def test_a_refund_that_a_crash_cut_off_is_not_made_twice(shop: Service, refunder: Refunder) -> None:
    """The worker does not ask the acquirer; operators are alerted."""
    refunder.can, refunder.closed = REFUNDS_TWICE, True
    order_id = await paid(shop)
    await slow_refund(shop, order_id)
    kill()
    refunder.closed = False
    await expire_leases(shop)
    assert await work(shop, refunder=refunder) == 1
    assert await work(shop, refunder=refunder) == 0
    assert len(refunder.asked) == 1
    ((message, _),) = await alerts(shop, order_id)
    assert "an earlier attempt had no answer" in message


async def test_a_late_answer_counts_though_a_person_was_asked(shop: Service, refunder: Refunder) -> None:
    """The worker took the refund for one that was cut off, and its call goes on."""
    refunder.can, refunder.closed = REFUNDS_TWICE, True
    order_id = await paid(shop)
    await slow_refund(shop, order_id)
    await expire_leases(shop)
    assert await work(shop, refunder=refunder) == 1
    refunder.opens.set()
    await is_answered(shop, "processed")
    assert len(refunder.asked) == 1


async def test_a_refund_that_was_not_sent_is_sent_later(
    shop: Service, frozen: MovableClock, refunder: Refunder
) -> None:
    """Also where it may be made once only: no attempt has reached the acquirer."""
    refunder.can, refunder.words = REFUNDS_TWICE, [SHUT, SHUT, NotSent("the breaker is open", again=False)]
    order_id = await paid(shop)
    assert only(await refund(shop, order_id))["status"] == "processing"
    for _ in range(3):
        frozen.advance(2 * MINUTE)
        assert await work(shop, refunder=refunder) == 1
    assert await statuses(shop) == ["processed"]
    assert await alerts(shop, order_id) == []
    assert len(set(refunder.asked)) == 1


@pytest.mark.on_postgres
async def test_an_acquirer_that_refunds_a_payment_only_as_a_whole(shop: Service, refunder: Refunder) -> None:
    """A part is refused with the reason, and nothing is reserved; the whole passes, with or without its amount."""
    refunder.can = WHOLE
    order_id, other_id = await paid(shop), await paid(shop)
    for amount in ("24.89", "0.01"):
        reply = await refund(shop, order_id, amount)
        assert (reply.status, reply.code) == (409, "cannot_refund_order")
        assert "only as a whole" in reply.details[0]
    row = await shop.database.read(lambda tx: tx.one(RESERVED, shop.seller_id, order_id))
    assert row is not None
    assert tuple(row) == (0, None)
    assert refunder.asked == []
    assert only(await refund(shop, order_id))["status"] == "processed"
    assert only(await refund(shop, other_id, "24.90"))["status"] == "processed"
    assert (await refund(shop, order_id)).code == "order_already_refunded"
    for amount in ("24.90", "1.00"):
        assert (await refund(shop, other_id, amount)).code == "order_already_refunded"
    assert len(refunder.asked) == 2


async def test_a_refund_in_a_currency_that_the_acquirer_does_not_accept_is_refused(
    shop: Service, refunder: Refunder
) -> None:
    """With the reason, and nothing is reserved."""
    order_id = await paid(shop)
    refunder.can = Capabilities(currencies=frozenset({"CLP"}))
    reply = await refund(shop, order_id)
    assert (reply.status, reply.code) == (409, "cannot_refund_order")
    assert reply.details == ["the order's acquirer does not accept BRL"]
    assert refunder.asked == []
    refunder.can = Capabilities(currencies=frozenset({"BRL"}))
    assert only(await refund(shop, order_id))["status"] == "processed"


@pytest.mark.on_postgres
@pytest.mark.parametrize(
    "wrong",
    [Approved("115019989861", 2489), Approved("1", 2490, currency="CLP"), Approved("1", 2490, key="REF0")],
    ids=["amount", "currency", "key"],
)
async def test_an_answer_that_is_not_of_the_refund_changes_nothing(
    shop: Service, frozen: MovableClock, refunder: Refunder, wrong: Approved
) -> None:
    """It may have taken effect, so it is asked for again under its key; operators have one event an hour."""
    refunder.words = [wrong] * 4
    order_id = await paid(shop)
    assert only(await refund(shop, order_id))["status"] == "processing"
    for _ in range(3):
        await shop.scene.run(DUE, shop.seller_id)
        assert await work(shop, refunder=refunder) == 1
    assert await statuses(shop) == ["processing"]
    assert await shop.database.read(lambda tx: tx.all(DIFFERING)) == [(1,)]
    frozen.advance(10 * MINUTE)
    assert await work(shop, refunder=refunder) == 1
    assert await statuses(shop) == ["processed"]
    assert len(set(refunder.asked)) == 1


@pytest.mark.parametrize("is_older", [False, True])
async def test_each_attempt_of_a_refund_has_the_same_reference(
    shop: Service, refunder: Refunder, frozen: MovableClock, *, is_older: bool
) -> None:
    """Though a terminal reports the payment's reference later, of an order that an operator resolved without it.

    A refund that a node of an earlier version requested has the reference of its order.
    """
    order_id = await paid(shop)
    await shop.scene.run("UPDATE orders SET reference_id = NULL WHERE order_id = $1", order_id)
    refunder.words.append(LOST)
    assert only(await refund(shop, order_id))["status"] == "processing"
    await shop.scene.run("UPDATE orders SET reference_id = '115019989861' WHERE order_id = $1", order_id)
    if is_older:
        await shop.scene.run("UPDATE refunds SET payment_reference_id = NULL WHERE order_id = $1", order_id)
    frozen.advance(MINUTE)
    await expire_leases(shop)
    assert await work(shop, refunder=refunder) == 1
    assert refunder.references == ["", "115019989861" if is_older else ""]
