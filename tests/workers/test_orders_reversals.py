"""Late approvals: confirmed by an inquiry, given back until the acquirer confirms; the order never changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import pytest

from asking_scene import REFERENCE, SAID, UNDONE, ToldAcquirer, give_back, reversals_of, told
from device_scene import APPROVED, DECLINED, Desk, answered, open_desk, refused
from paydesk.core.clock import MovableClock
from paydesk.invariants import check
from paydesk.orders.order import Order
from paydesk.payments import reversal_store
from paydesk.payments.acquirer import Approved, Declined, NotFound, NotSent, Outcome, Unknown
from paydesk.payments.reversal_store import Reversal
from paydesk.storage.database import Database, Transaction

OTHER = {**APPROVED, "reference_id": "220033445566"}
NOBODY_KNOWS = Unknown("the answer was lost")


@pytest.fixture
async def desk(database: Database) -> Desk:
    """A terminal that has said hello."""
    return await open_desk(database)


@pytest.fixture
def acquirer() -> ToldAcquirer:
    """It approved what the terminals say that it did."""
    acquirer = ToldAcquirer()
    acquirer.say(SAID)
    return acquirer


async def sound(desk: Desk) -> None:
    """The books agree."""
    assert await check.check(desk.database, desk.clock.now_ms()) == []


async def approved_late(desk: Desk) -> Order:
    """An order that had failed when its terminal reported an approval."""
    order = await desk.granted()
    answered(await desk.report(order, DECLINED))
    assert refused(await desk.report(order, APPROVED)) == "order_finished"
    return await desk.now(order)


async def approved_twice(desk: Desk, second: Mapping[str, object]) -> Order:
    """A paid order of which its terminal reported another approval."""
    order = await desk.granted()
    answered(await desk.report(order, APPROVED))
    assert refused(await desk.report(order, dict(second))) == "order_finished"
    return await desk.now(order)


async def test_no_more_are_claimed_than_there_is_room_for(desk: Desk) -> None:
    """Whatever the plan of the database, also where a seller has many that are due and somebody else claims too."""
    order = await approved_late(desk)
    now_ms = desk.clock.now_ms()

    async def begin(tx: Transaction) -> None:
        for number in range(60):
            await reversal_store.begin(
                tx, order, now_ms, result_id=str(number), amount_minor=order.amount_minor, reference_id=""
            )

    async def claim(tx: Transaction) -> list[Reversal]:
        times = {"now_ms": now_ms, "wall_ms": now_ms, "until_ms": now_ms + 1}
        return await reversal_store.QUEUE.claim(tx, order.seller_id, limit=16, **times)

    await desk.database.write(begin)
    claimed = await asyncio.gather(*(desk.database.write(claim) for _ in range(8)))
    assert max(map(len, claimed)) == 16
    assert sum(map(len, claimed)) == 61


async def test_it_is_confirmed_and_given_back_until_the_acquirer_confirms(desk: Desk, acquirer: ToldAcquirer) -> None:
    """One inquiry, then one key until it is done; the operators hear of its beginning and of its end."""
    order = await approved_late(desk)
    assert await told(desk) == ["late_approval"]
    acquirer.answer(NOBODY_KNOWS, NotSent("the line is down"), UNDONE)
    for pause in (10, 30, 0):
        assert await give_back(desk, acquirer) == 1
        desk.clock.advance(max(pause * 1000 - 1, 0))
        assert await give_back(desk, acquirer) == 0
        desk.clock.advance(1)
    ((reversal_id, reference_id, amount_minor, how_far),) = await reversals_of(desk, order)
    assert (reference_id, amount_minor, how_far) == (APPROVED["reference_id"], 2490, "reversed")
    undo = ("reverse", f"PAY{order.ulid}", reversal_id, "2490", "")
    assert acquirer.asked == [("inquire", f"PAY{order.ulid}"), undo, undo, undo]
    assert await told(desk) == ["late_approval", "late_approval_reversed"]
    assert await desk.now(order) == order
    assert await give_back(desk, acquirer) == 0
    await sound(desk)


async def test_of_two_approvals_the_one_that_is_not_the_orders_goes_back(desk: Desk, acquirer: ToldAcquirer) -> None:
    """By its own reference: nothing that is asked of the acquirer could touch the payment."""
    order = await approved_twice(desk, OTHER)
    await give_back(desk, acquirer)
    ((reversal_id, reference_id, _, how_far),) = await reversals_of(desk, order)
    assert (reference_id, how_far) == (OTHER["reference_id"], "reversed")
    assert acquirer.asked[1:] == [("reverse", f"PAY{order.ulid}", reversal_id, "2490", OTHER["reference_id"])]
    assert await desk.now(order) == order
    await sound(desk)


@pytest.mark.parametrize("second", [{"reference_id": None}, {"paid_amount": "24.91"}], ids=["unnamed", "other amount"])
async def test_the_orders_own_payment_is_never_given_back(
    desk: Desk, acquirer: ToldAcquirer, second: Mapping[str, object]
) -> None:
    """An approval that may be the very payment of the order is none to be given back, whatever else it says."""
    again = {name: value for name, value in {**APPROVED, **second}.items() if value is not None}
    order = await approved_twice(desk, again)
    await give_back(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["not_found"]
    assert acquirer.reversed_keys == []
    assert await told(desk) == ["late_approval", "late_approval_unfounded"]
    await sound(desk)


async def test_a_payment_without_a_reference_is_known_by_the_acquirers(desk: Desk, acquirer: ToldAcquirer) -> None:
    """The terminal named it only the second time: the acquirer's reference tells that it is the order's own."""
    order = await desk.granted()
    answered(await desk.report(order, {name: value for name, value in APPROVED.items() if name != "reference_id"}))
    refused(await desk.report(order, {**APPROVED, "reference_id": REFERENCE}))
    await give_back(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["not_found"]
    assert acquirer.reversed_keys == []


async def test_what_the_acquirer_never_approved_is_not_given_back(desk: Desk, acquirer: ToldAcquirer) -> None:
    """The terminal was wrong: the operators are told so."""
    order = await approved_late(desk)
    acquirer.say(Declined("high_risk"))
    await give_back(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["not_found"]
    assert acquirer.reversed_keys == []
    assert await told(desk) == ["late_approval", "late_approval_unfounded"]
    await sound(desk)


async def test_what_is_not_found_for_ten_minutes_is_forbidden(desk: Desk, acquirer: ToldAcquirer) -> None:
    """It may come to the acquirer late: until then it is asked, then it is void whenever it comes."""
    order = await approved_late(desk)
    acquirer.say(NotFound())
    for pause in (10, 30, 60, 120, 300, 80):
        assert await give_back(desk, acquirer) == 1
        assert acquirer.reversed_keys == []
        desk.clock.advance(pause * 1000)
    assert await give_back(desk, acquirer) == 1
    ((reversal_id, _, _, how_far),) = await reversals_of(desk, order)
    assert (acquirer.reversed_keys, how_far) == ([reversal_id], "not_found")
    await sound(desk)


async def test_what_is_found_late_is_given_back(desk: Desk, acquirer: ToldAcquirer) -> None:
    """With the amount that the acquirer approved, whatever the terminal said."""
    order = await approved_late(desk)
    acquirer.say(NotFound(), Approved(REFERENCE, 2400))
    await give_back(desk, acquirer)
    desk.clock.advance(10_000)
    await give_back(desk, acquirer)
    assert [row[2:] for row in await reversals_of(desk, order)] == [(2400, "reversed")]
    await sound(desk)


async def test_an_acquirer_that_refuses_is_asked_again_what_is_true(desk: Desk, acquirer: ToldAcquirer) -> None:
    """The operators are told, once; when it says that nothing is there any more, that is the end."""
    order = await approved_late(desk)
    acquirer.answer(Declined("processing_error"))
    for _ in range(3):
        await give_back(desk, acquirer)
        desk.clock.advance(600_000)
    assert [call[0] for call in acquirer.asked] == ["inquire", "reverse"] * 3
    assert await told(desk) == ["late_approval", "reversal_needs_person"]
    acquirer.say(Declined("processing_error"))
    await give_back(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["not_found"]


@pytest.mark.parametrize("outcome", [NOBODY_KNOWS, NotSent("the line is down")])
async def test_a_reversal_without_an_end_is_told_once(desk: Desk, acquirer: ToldAcquirer, outcome: Outcome) -> None:
    """After an hour, and it is tried on all the same."""
    order = await approved_late(desk)
    acquirer.answer(outcome)
    for _ in range(9):
        await give_back(desk, acquirer)
        desk.clock.advance(600_000)
    assert await told(desk) == ["late_approval", "reversal_needs_person"]
    acquirer.answer(UNDONE)
    await give_back(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["reversed"]


async def test_without_an_acquirer_it_waits_for_a_person(desk: Desk, acquirer: ToldAcquirer) -> None:
    """They are told once; an acquirer that is configured later is asked."""
    order = await approved_late(desk)
    for _ in range(3):
        assert await give_back(desk, None) == 1
        desk.clock.advance(600_000)
    assert await told(desk) == ["late_approval", "reversal_needs_person"]
    await give_back(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["reversed"]


async def test_two_nodes_give_it_back_once(desk: Desk, acquirer: ToldAcquirer) -> None:
    """Both find it due at the same moment; one of them has it to itself."""
    await approved_late(desk)
    tried = await asyncio.gather(*(give_back(desk, acquirer) for _ in range(4)))
    assert (sum(tried), len(acquirer.reversed_keys)) == (1, 1)


async def test_one_that_a_slow_node_and_another_both_give_back_ends_once(desk: Desk, acquirer: ToldAcquirer) -> None:
    """A claim ran out while the acquirer was asked: the same key twice, one end and one word of it."""
    order = await approved_late(desk)
    wall, slow = MovableClock(frozen_ms=desk.clock.now_ms()), ToldAcquirer()
    slow.say(SAID)

    async def another() -> None:
        wall.advance(71_000)
        assert await give_back(desk, acquirer, wall=wall) == 1

    slow.meanwhile = another
    await give_back(desk, slow, wall=wall)
    ((reversal_id, _, _, how_far),) = await reversals_of(desk, order)
    assert set(acquirer.reversed_keys + slow.reversed_keys) == {reversal_id}
    assert how_far == "reversed"
    assert await told(desk) == ["late_approval", "late_approval_reversed"]
    await sound(desk)


async def test_the_same_approval_told_twice_is_given_back_once(desk: Desk, acquirer: ToldAcquirer) -> None:
    """A terminal repeats its result until it is heard."""
    order = await desk.granted()
    answered(await desk.report(order, DECLINED))
    result_id = "5b3c7a0e-1f1e-4f0e-9a53-0d6a9a4a7c11"
    for _ in range(3):
        assert refused(await desk.report(order, APPROVED, result_id)) == "order_finished"
    await give_back(desk, acquirer)
    assert len(acquirer.reversed_keys) == len(await reversals_of(desk, order)) == 1


async def test_an_event_carries_its_evidence(desk: Desk, acquirer: ToldAcquirer) -> None:
    """Whose it is, and under which ids it was given back."""
    order = await approved_late(desk)
    await give_back(desk, acquirer)
    ((reversal_id, *_),) = await reversals_of(desk, order)
    sql = "SELECT seller_id, subject, body FROM operator_events WHERE kind = $1"
    (row,) = await desk.rows(sql, "late_approval_reversed")
    assert tuple(row[:2]) == (order.seller_id, order.order_id)
    assert json.loads(row[2]) == {"reversal_id": reversal_id, "reference_id": UNDONE.reference_id}
