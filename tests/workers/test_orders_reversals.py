"""Late approvals: confirmed by an inquiry, reversed until the acquirer confirms it; the order never changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import pytest

from device_scene import APPROVED, DECLINED, Desk, answered, open_desk, refused
from jobs_scene import REFERENCE, SAID, UNDONE, FakeAcquirer, alert_kinds, process_reversals, reversals_of
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.payments import reversal_store, reversals
from paydesk.engine.payments.acquirer import Approved, Declined, NotFound, NotSent, Outcome, Unknown
from paydesk.engine.payments.reversal_store import Reversal
from paydesk.platform.jobs import Claim
from paydesk.platform.storage.database import Database, Transaction

OTHER = {**APPROVED, "reference_id": "220033445566"}
NOBODY_KNOWS = Unknown("the answer was lost")


@pytest.fixture
async def desk(database: Database) -> Desk:
    """A terminal that has sent hello."""
    return await open_desk(database)


@pytest.fixture
def acquirer() -> FakeAcquirer:
    """An acquirer that approved what the terminals report."""
    acquirer = FakeAcquirer()
    acquirer.say(SAID)
    return acquirer


async def ledgers_agree(desk: Desk) -> None:
    """Check all invariants at the end."""
    assert await check.check(desk.database, desk.clock.now_ms()) == []


async def approved_late(desk: Desk) -> Order:
    """An order that had failed when its terminal reported an approval."""
    order = await desk.granted()
    answered(await desk.report(order, DECLINED))
    assert refused(await desk.report(order, APPROVED)) == "order_finished"
    return await desk.now(order)


async def approved_twice(desk: Desk, second: Mapping[str, object]) -> Order:
    """A paid order whose terminal reported another approval."""
    order = await desk.granted()
    answered(await desk.report(order, APPROVED))
    assert refused(await desk.report(order, dict(second))) == "order_finished"
    return await desk.now(order)


async def test_a_claim_respects_its_limit(desk: Desk) -> None:
    """Whatever the query plan, also with many due rows and concurrent claims."""
    order = await approved_late(desk)
    now_ms = desk.clock.now_ms()

    async def begin(tx: Transaction) -> None:
        for number in range(60):
            await reversal_store.begin(
                Change(tx, now_ms, PLAIN),
                order,
                result_id=str(number),
                amount_minor=order.amount_minor,
                reference_id="",
            )

    async def claim(tx: Transaction) -> list[Reversal]:
        group = order.seller_id, order.live, None
        return await reversals.JOB.claim(tx, group, Claim(now_ms, now_ms, now_ms + 1, limit=16))

    await desk.database.write(begin)
    claimed = await asyncio.gather(*(desk.database.write(claim) for _ in range(8)))
    assert max(map(len, claimed)) == 16
    assert sum(map(len, claimed)) == 61


async def test_a_late_approval_is_reversed_until_the_acquirer_confirms(desk: Desk, acquirer: FakeAcquirer) -> None:
    """One inquiry, then one key; operators are alerted at the beginning and at the end."""
    order = await approved_late(desk)
    assert await alert_kinds(desk) == ["late_approval"]
    acquirer.answer(NOBODY_KNOWS, NotSent("the line is down"), UNDONE)
    for pause in (10, 30, 0):
        assert await process_reversals(desk, acquirer) == 1
        desk.clock.advance(max(pause * 1000 - 1, 0))
        assert await process_reversals(desk, acquirer) == 0
        desk.clock.advance(1)
    ((reversal_id, reference_id, amount_minor, how_far),) = await reversals_of(desk, order)
    assert (reference_id, amount_minor, how_far) == (APPROVED["reference_id"], 2490, "reversed")
    undo = ("reverse", f"PAY{order.ulid}", reversal_id, "2490", "")
    assert acquirer.asked == [("inquire", f"PAY{order.ulid}"), undo, undo, undo]
    assert await alert_kinds(desk) == ["late_approval", "late_approval_reversed"]
    assert await desk.now(order) == order
    assert await process_reversals(desk, acquirer) == 0
    await ledgers_agree(desk)


@pytest.mark.on_postgres
async def test_of_two_approvals_the_other_one_is_reversed(desk: Desk, acquirer: FakeAcquirer) -> None:
    """By its own reference, so that the order's payment is not affected."""
    order = await approved_twice(desk, OTHER)
    await process_reversals(desk, acquirer)
    ((reversal_id, reference_id, _, how_far),) = await reversals_of(desk, order)
    assert (reference_id, how_far) == (OTHER["reference_id"], "reversed")
    assert acquirer.asked[1:] == [("reverse", f"PAY{order.ulid}", reversal_id, "2490", OTHER["reference_id"])]
    assert await desk.now(order) == order
    await ledgers_agree(desk)


@pytest.mark.parametrize("second", [{"reference_id": None}, {"paid_amount": "24.91"}], ids=["unnamed", "other amount"])
async def test_the_orders_own_payment_is_never_reversed(
    desk: Desk, acquirer: FakeAcquirer, second: Mapping[str, object]
) -> None:
    """Nor an approval that may be the order's payment."""
    again = {name: value for name, value in {**APPROVED, **second}.items() if value is not None}
    order = await approved_twice(desk, again)
    await process_reversals(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["not_found"]
    assert acquirer.reversed_keys == []
    assert await alert_kinds(desk) == ["late_approval", "late_approval_unfounded"]
    await ledgers_agree(desk)


async def test_a_payment_without_a_reference_is_identified_by_the_acquirers(desk: Desk, acquirer: FakeAcquirer) -> None:
    """The terminal reported the reference only the second time."""
    order = await desk.granted()
    answered(await desk.report(order, {name: value for name, value in APPROVED.items() if name != "reference_id"}))
    refused(await desk.report(order, {**APPROVED, "reference_id": REFERENCE}))
    await process_reversals(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["not_found"]
    assert acquirer.reversed_keys == []


async def test_an_approval_unknown_to_the_acquirer_is_not_reversed(desk: Desk, acquirer: FakeAcquirer) -> None:
    """Operators are alerted that it is unfounded."""
    order = await approved_late(desk)
    acquirer.say(Declined("high_risk"))
    await process_reversals(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["not_found"]
    assert acquirer.reversed_keys == []
    assert await alert_kinds(desk) == ["late_approval", "late_approval_unfounded"]
    await ledgers_agree(desk)


async def test_an_approval_not_found_for_two_minutes_is_blocked(desk: Desk, acquirer: FakeAcquirer) -> None:
    """Until then it is inquired; afterwards a late authorization is declined."""
    order = await approved_late(desk)
    acquirer.say(NotFound())
    for pause in (10, 30, 60, 20):
        assert await process_reversals(desk, acquirer) == 1
        assert acquirer.reversed_keys == []
        desk.clock.advance(pause * 1000)
    assert await process_reversals(desk, acquirer) == 1
    ((reversal_id, _, _, how_far),) = await reversals_of(desk, order)
    assert (acquirer.reversed_keys, how_far) == ([reversal_id], "not_found")
    await ledgers_agree(desk)


async def test_an_approval_found_late_is_reversed(desk: Desk, acquirer: FakeAcquirer) -> None:
    """With the acquirer's amount, not the terminal's."""
    order = await approved_late(desk)
    acquirer.say(NotFound(), Approved(REFERENCE, 2400))
    await process_reversals(desk, acquirer)
    desk.clock.advance(10_000)
    await process_reversals(desk, acquirer)
    assert [row[2:] for row in await reversals_of(desk, order)] == [(2400, "reversed")]
    await ledgers_agree(desk)


@pytest.mark.on_postgres
async def test_after_a_declined_reversal_the_acquirer_is_inquired_again(desk: Desk, acquirer: FakeAcquirer) -> None:
    """Operators are alerted once; if nothing is found then, the reversal ends."""
    order = await approved_late(desk)
    acquirer.answer(Declined("processing_error"))
    for _ in range(3):
        await process_reversals(desk, acquirer)
        desk.clock.advance(600_000)
    assert [call[0] for call in acquirer.asked] == ["inquire", "reverse"] * 3
    assert await alert_kinds(desk) == ["late_approval", "reversal_needs_person"]
    acquirer.say(Declined("processing_error"))
    await process_reversals(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["not_found"]


@pytest.mark.parametrize("outcome", [NOBODY_KNOWS, NotSent("the line is down")])
async def test_a_reversal_without_an_end_is_alerted_once(desk: Desk, acquirer: FakeAcquirer, outcome: Outcome) -> None:
    """After an hour, and attempts continue."""
    order = await approved_late(desk)
    acquirer.answer(outcome)
    for _ in range(9):
        await process_reversals(desk, acquirer)
        desk.clock.advance(600_000)
    assert await alert_kinds(desk) == ["late_approval", "reversal_needs_person"]
    acquirer.answer(UNDONE)
    await process_reversals(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["reversed"]


async def test_without_an_acquirer_a_reversal_waits_for_an_operator(desk: Desk, acquirer: FakeAcquirer) -> None:
    """They are alerted once; an acquirer configured later is asked."""
    order = await approved_late(desk)
    for _ in range(3):
        assert await process_reversals(desk, None) == 1
        desk.clock.advance(600_000)
    assert await alert_kinds(desk) == ["late_approval", "reversal_needs_person"]
    await process_reversals(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["reversed"]


async def test_two_nodes_reverse_once(desk: Desk, acquirer: FakeAcquirer) -> None:
    """Both find it due; one claims it."""
    await approved_late(desk)
    tried = await asyncio.gather(*(process_reversals(desk, acquirer) for _ in range(4)))
    assert (sum(tried), len(acquirer.reversed_keys)) == (1, 1)


async def test_a_reversal_on_two_nodes_ends_once(desk: Desk, acquirer: FakeAcquirer) -> None:
    """A lease expired during the request: the same key twice, one end and one alert."""
    order = await approved_late(desk)
    wall, slow = MovableClock(frozen_ms=desk.clock.now_ms()), FakeAcquirer()
    slow.say(SAID)

    async def another() -> None:
        wall.advance(71_000)
        assert await process_reversals(desk, acquirer, wall=wall) == 1

    slow.meanwhile = another
    await process_reversals(desk, slow, wall=wall)
    ((reversal_id, _, _, how_far),) = await reversals_of(desk, order)
    assert set(acquirer.reversed_keys + slow.reversed_keys) == {reversal_id}
    assert how_far == "reversed"
    assert await alert_kinds(desk) == ["late_approval", "late_approval_reversed"]
    await ledgers_agree(desk)


async def test_a_repeated_approval_is_reversed_once(desk: Desk, acquirer: FakeAcquirer) -> None:
    """A terminal repeats its result until it gets a response."""
    order = await desk.granted()
    answered(await desk.report(order, DECLINED))
    result_id = "5b3c7a0e-1f1e-4f0e-9a53-0d6a9a4a7c11"
    for _ in range(3):
        assert refused(await desk.report(order, APPROVED, result_id)) == "order_finished"
    await process_reversals(desk, acquirer)
    assert len(acquirer.reversed_keys) == len(await reversals_of(desk, order)) == 1


async def test_an_alert_has_its_evidence(desk: Desk, acquirer: FakeAcquirer) -> None:
    """The seller, the order, and the ids of the reversal."""
    order = await approved_late(desk)
    await process_reversals(desk, acquirer)
    ((reversal_id, *_),) = await reversals_of(desk, order)
    sql = "SELECT seller_id, subject, body FROM operator_events WHERE kind = $1"
    (row,) = await desk.rows(sql, "late_approval_reversed")
    assert tuple(row[:2]) == (order.seller_id, order.order_id)
    assert json.loads(row[2]) == {"reversal_id": reversal_id, "reference_id": UNDONE.reference_id}


@pytest.mark.on_postgres
async def test_an_approval_after_all_begins_the_reversal_anew(desk: Desk, acquirer: FakeAcquirer) -> None:
    """The acquirer had none when a terminal reported one; one that is reversed, or pending, is not begun again."""
    order = await approved_late(desk)

    async def begin(tx: Transaction) -> bool:
        change = Change(tx, desk.clock.now_ms(), PLAIN)
        return await reversal_store.begin(
            change, order, result_id=reversal_store.BY_ACQUIRER, amount_minor=2490, reference_id=REFERENCE
        )

    assert await desk.database.write(begin)
    acquirer.say(NotFound())
    desk.clock.advance(200_000)
    await process_reversals(desk, acquirer)
    assert {row[3] for row in await reversals_of(desk, order)} == {"not_found"}
    assert await desk.database.write(begin)
    assert not await desk.database.write(begin)
    acquirer.say(Approved(REFERENCE, 2490))
    await process_reversals(desk, acquirer)
    assert sorted(row[3] for row in await reversals_of(desk, order)) == ["not_found", "reversed"]
    assert not await desk.database.write(begin)
