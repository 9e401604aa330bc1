"""Unknown outcomes: the acquirer is asked until the order has its one outcome, and never charges again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from device_scene import APPROVED, CANCELED, DECLINED, UNKNOWN, Desk, answered, open_desk, refused
from jobs_scene import (
    REFERENCE,
    SAID,
    UNDONE,
    FakeAcquirer,
    alert_kinds,
    context_of,
    inquire,
    inquiry,
    process_reversals,
    reversals_of,
    unknown,
)
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.engine.orders import status
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.payments import inquiries, inquiry_store
from paydesk.engine.payments.acquirer import Approved, Declined, InquiryResult, NotFound, NotSent, Outcome, Unknown
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.inquiry_store import Inquiry
from paydesk.engine.payments.jobs import AcquirerJob, Group
from paydesk.engine.payments.lifecycles import INQUIRIES
from paydesk.platform.health.clock import ClockJumped, WatchedClock
from paydesk.platform.jobs import JobWorker
from paydesk.platform.storage.database import Database

NOBODY_KNOWS = Unknown("the answer was lost")


@pytest.fixture
async def desk(database: Database) -> Desk:
    """A terminal that has sent hello."""
    return await open_desk(database)


@pytest.fixture
def acquirer() -> FakeAcquirer:
    """An acquirer that has no payment yet."""
    return FakeAcquirer()


async def ledgers_agree(desk: Desk) -> None:
    """Check all invariants at the end."""
    assert await check.check(desk.database, desk.clock.now_ms()) == []


async def test_a_clock_jump_between_search_and_claim_claims_nothing(desk: Desk, acquirer: FakeAcquirer) -> None:
    """A lease by such a clock would last as long as the clock is off."""
    order, wall = await unknown(desk), MovableClock(frozen_ms=desk.clock.now_ms())
    watched = WatchedClock(lambda: wall.now_ms() * 1_000_000, lambda: 0)

    class Jumping(AcquirerJob[Inquiry]):
        async def groups(self, database: Database, now_ms: int, wall_ms: int) -> AsyncGenerator[Group, None]:
            wall.advance(28 * 3_600_000)
            async for group in AcquirerJob.groups(self, database, now_ms, wall_ms):
                yield group

    jumping = Jumping("inquiry of", INQUIRIES, Inquiry, "order_id", inquiries.InquiryAttempt.process)
    context = replace(context_of(desk, Acquirers(test=acquirer)), clock=watched)
    worker = JobWorker(context, jumping, wall=wall)
    with pytest.raises(ClockJumped):
        await worker.step()
    acquirer.say(SAID)
    assert await inquire(desk, acquirer, wall=desk.clock) == 1
    assert (await desk.now(order)).state == status.PROCESSED


async def test_an_approval_processes_the_order_with_the_acquirers_details(desk: Desk, acquirer: FakeAcquirer) -> None:
    """At the first inquiry: reference, authorization code, card and installments are the acquirer's."""
    order = await unknown(desk)
    acquirer.say(SAID)
    assert await inquire(desk, acquirer) == 1
    paid = await desk.now(order)
    assert (paid.state, paid.paid_minor, paid.origin) == (status.PROCESSED, 2490, None)
    assert (paid.reference_id, paid.authorization_code) == (REFERENCE, "831000")
    assert json.loads(paid.payment_method or "") == {"id": "visa", "type": "credit_card", "installments": 3}
    assert json.loads(paid.card or "") == {"first_digits": "423564", "last_digits": "5682", "entry_mode": "chip"}
    assert acquirer.asked == [("inquire", f"PAY{order.ulid}")]
    assert await inquiry(desk, order) == (1, "approved")
    assert await inquire(desk, acquirer) == 0
    await ledgers_agree(desk)


@pytest.mark.parametrize(
    ("said", "shown"),
    [("insufficient_amount", "insufficient_amount"), ("a_word_of_its_own", "rejected_other_reason")],
)
async def test_a_decline_fails_the_order(desk: Desk, acquirer: FakeAcquirer, said: str, shown: str) -> None:
    """With its detail, or with `rejected_other_reason` for an unknown detail."""
    order = await unknown(desk)
    acquirer.say(Declined(said))
    await inquire(desk, acquirer)
    failed = await desk.now(order)
    assert (failed.state, failed.origin) == (status.FAILED[shown], "acquirer")
    assert await inquiry(desk, order) == (1, "declined")
    await ledgers_agree(desk)


@pytest.mark.parametrize("said", [NOBODY_KNOWS, NotSent("the line is down")])
async def test_retries_after_growing_pauses(desk: Desk, acquirer: FakeAcquirer, said: InquiryResult) -> None:
    """At once, then after 10 s, 30 s, 1, 2, 5, 10 and 10 min; operators are alerted once, after an hour."""
    order = await unknown(desk)
    acquirer.say(said)
    for pause in (10, 30, 60, 120, 300, 600, 600, 600, 600, 600, 600):
        assert await inquire(desk, acquirer) == 1
        desk.clock.advance(pause * 1000 - 1)
        assert await inquire(desk, acquirer) == 0
        desk.clock.advance(1)
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await alert_kinds(desk) == []
    await inquire(desk, acquirer)
    desk.clock.advance(600_000)
    await inquire(desk, acquirer)
    assert await alert_kinds(desk) == ["inquiry_needs_person"]
    assert acquirer.reversed_keys == []
    acquirer.say(SAID)
    desk.clock.advance(600_000)
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.PROCESSED
    await ledgers_agree(desk)


async def test_a_payment_not_found_two_minutes_after_the_permit_is_reversed_and_fails(
    desk: Desk, acquirer: FakeAcquirer
) -> None:
    """Not a second earlier, however late the inquiry began; the reversal comes first, under the payment's own key."""
    order = await desk.granted()
    permitted_ms = desk.clock.now_ms()
    desk.clock.advance(39_000)
    answered(await desk.report(order, UNKNOWN))
    while desk.clock.now_ms() < permitted_ms + 119_000:
        await inquire(desk, acquirer)
        assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
        assert acquirer.reversed_keys == []
        desk.clock.advance(1000)
    desk.clock.advance(1000)
    assert await inquire(desk, acquirer) == 1
    assert acquirer.asked[-2:] == [
        ("inquire", f"PAY{order.ulid}"),
        ("reverse", f"PAY{order.ulid}", f"PAY{order.ulid}", "2490", ""),
    ]
    failed = await desk.now(order)
    assert (failed.state, failed.origin, failed.paid_minor) == (status.FAILED["processing_error"], "network", None)
    assert await inquiry(desk, order) == (len(acquirer.asked) - 1, "not_found")
    await ledgers_agree(desk)


async def _about_to_be_reversed(desk: Desk, acquirer: FakeAcquirer, *outcomes: Outcome) -> None:
    """Return an order whose payment is about to be reversed, with these outcomes."""
    acquirer.answer(*outcomes)
    await inquire(desk, acquirer)
    desk.clock.advance(600_000)
    acquirer.asked.clear()


async def test_a_reversal_without_a_response_is_retried_without_an_inquiry(desk: Desk, acquirer: FakeAcquirer) -> None:
    """Under the same key until confirmed; an approval would not count any more."""
    order = await unknown(desk)
    await _about_to_be_reversed(desk, acquirer, NOBODY_KNOWS, NotSent("the line is down"), UNDONE)
    acquirer.say(NotFound(), SAID)
    for _ in range(3):
        assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
        assert await inquire(desk, acquirer) == 1
        desk.clock.advance(600_000)
    assert [call[0] for call in acquirer.asked] == ["inquire", "reverse", "reverse", "reverse"]
    assert set(acquirer.reversed_keys) == {f"PAY{order.ulid}"}
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    await ledgers_agree(desk)


async def test_a_terminals_approval_while_reversing_is_a_late_approval(desk: Desk, acquirer: FakeAcquirer) -> None:
    """It is recorded and refused; the order fails and the approval is reversed."""
    order = await unknown(desk)
    await _about_to_be_reversed(desk, acquirer, NOBODY_KNOWS, UNDONE)
    await inquire(desk, acquirer)
    outcome = await desk.report(order, APPROVED)
    assert refused(outcome) == "result_conflict"
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await alert_kinds(desk) == ["late_approval"]
    acquirer.say(SAID)
    # The order has not ended yet: what is to be reversed waits for that.
    assert await process_reversals(desk, acquirer) == 1
    assert len(acquirer.reversed_keys) == 1
    desk.clock.advance(600_000)
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    await process_reversals(desk, acquirer)
    ((reversal_id, _, _, how_far),) = await reversals_of(desk, order)
    assert (acquirer.reversed_keys[-1], how_far) == (reversal_id, "reversed")
    assert await alert_kinds(desk) == ["late_approval", "late_approval_reversed"]
    await ledgers_agree(desk)


@pytest.mark.on_postgres
async def test_a_terminals_decline_while_reversing_ends_the_order(desk: Desk, acquirer: FakeAcquirer) -> None:
    """With the terminal's detail."""
    order = await unknown(desk)
    await _about_to_be_reversed(desk, acquirer, NOBODY_KNOWS, UNDONE)
    await inquire(desk, acquirer)
    answered(await desk.report(order, DECLINED))
    desk.clock.advance(600_000)
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.FAILED["insufficient_amount"]
    assert (await inquiry(desk, order))[1] == "not_found"
    await ledgers_agree(desk)


@pytest.mark.on_postgres
async def test_after_a_declined_reversal_the_acquirer_is_inquired_again(desk: Desk, acquirer: FakeAcquirer) -> None:
    """Operators are alerted once; if the inquiry returns an approval, the order is processed."""
    order = await unknown(desk)
    await _about_to_be_reversed(desk, acquirer, Declined("processing_error"))
    for _ in range(3):
        await inquire(desk, acquirer)
        desk.clock.advance(600_000)
    assert await alert_kinds(desk) == ["inquiry_needs_person"]
    acquirer.say(SAID)
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.PROCESSED
    await ledgers_agree(desk)


async def test_an_approval_of_another_amount_is_reversed_and_the_order_fails(
    desk: Desk, acquirer: FakeAcquirer
) -> None:
    """At once, without waiting for two minutes, and operators are alerted."""
    order = await unknown(desk)
    acquirer.say(Approved(REFERENCE, 2491))
    await inquire(desk, acquirer)
    assert acquirer.reversed_keys == [f"PAY{order.ulid}"]
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    assert await alert_kinds(desk) == ["approval_of_another_amount"]
    await ledgers_agree(desk)


async def test_a_result_during_the_inquiry_is_the_outcome(desk: Desk, acquirer: FakeAcquirer) -> None:
    """The acquirer's answer then changes nothing, and nothing is reversed."""
    order = await unknown(desk)

    async def report() -> None:
        answered(await desk.report(order, APPROVED))

    acquirer.say(SAID)
    acquirer.meanwhile = report
    await inquire(desk, acquirer)
    paid = await desk.now(order)
    assert (paid.state, paid.reference_id, paid.version) == (status.PROCESSED, APPROVED["reference_id"], 4)
    assert (await inquiry(desk, order))[1] == "result"
    assert await reversals_of(desk, order) == []
    await ledgers_agree(desk)


async def test_a_result_after_the_inquiry_is_recorded(desk: Desk, acquirer: FakeAcquirer) -> None:
    """The same approval is the order's payment and is not reversed."""
    order = await unknown(desk)
    acquirer.say(SAID)
    await inquire(desk, acquirer)
    assert refused(await desk.report(order, {**APPROVED, "reference_id": REFERENCE})) == "order_finished"
    assert await reversals_of(desk, order) == []
    assert await desk.rows("SELECT verdict FROM results ORDER BY created_ms") == [("taken",), ("finished",)]
    await ledgers_agree(desk)


async def test_an_approval_inquired_after_a_decline_is_reversed(desk: Desk, acquirer: FakeAcquirer) -> None:
    """The terminal declined during the inquiry: the order remains failed."""
    order = await unknown(desk)

    async def report() -> None:
        answered(await desk.report(order, DECLINED))

    acquirer.say(SAID)
    acquirer.meanwhile = report
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.FAILED["insufficient_amount"]
    assert await alert_kinds(desk) == ["late_approval"]
    await process_reversals(desk, acquirer)
    ((reversal_id, reference_id, amount_minor, how_far),) = await reversals_of(desk, order)
    assert (reference_id, amount_minor, how_far) == (REFERENCE, 2490, "reversed")
    assert acquirer.reversed_keys == [reversal_id]
    await ledgers_agree(desk)


@pytest.mark.parametrize(
    ("raw", "code"), [(UNKNOWN, "order_finished"), (b"{", "result_conflict")], ids=["unknown", "unreadable"]
)
async def test_an_order_that_ended_before_an_unknown_result_is_inquired(
    desk: Desk, acquirer: FakeAcquirer, raw: dict[str, str] | bytes, code: str
) -> None:
    """It remains canceled, and a charge is reversed."""
    order = await desk.order()
    await desk.move(status.CANCEL, order)
    assert refused(await desk.report(order, raw)) == code
    acquirer.say(NotFound(), SAID)
    for _ in range(2):
        await inquire(desk, acquirer)
        desk.clock.advance(10_000)
    await process_reversals(desk, acquirer)
    assert (await desk.now(order)).state == status.CANCELED_BY_API
    ((reversal_id, reference_id, amount_minor, how_far),) = await reversals_of(desk, order)
    assert (reference_id, amount_minor, how_far) == (REFERENCE, 2490, "reversed")
    assert acquirer.reversed_keys == [reversal_id]
    await ledgers_agree(desk)


async def test_an_unknown_result_of_a_paid_order_starts_no_inquiry(desk: Desk) -> None:
    """Its payment is known."""
    order = await desk.granted()
    answered(await desk.report(order, APPROVED))
    assert refused(await desk.report(order, UNKNOWN)) == "order_finished"
    assert await desk.rows("SELECT order_id FROM inquiries") == []


async def test_the_inquiry_of_a_declined_order_continues(desk: Desk, acquirer: FakeAcquirer) -> None:
    """Its terminal reported unknown, then declined; the acquirer's later approval is reversed."""
    order = await unknown(desk)
    acquirer.say(NOBODY_KNOWS, SAID)
    await inquire(desk, acquirer)
    answered(await desk.report(order, DECLINED))
    desk.clock.advance(10_000)
    await inquire(desk, acquirer)
    assert len(await reversals_of(desk, order)) == 1
    assert (await inquiry(desk, order))[1] == "approved"
    await ledgers_agree(desk)


async def test_canceled_after_authorization_is_permitted_fails(desk: Desk, acquirer: FakeAcquirer) -> None:
    """A payment that was not made ends as failed/processing_error."""
    order = await desk.granted()
    assert refused(await desk.report(order, CANCELED)) == "result_conflict"
    await inquire(desk, acquirer)
    desk.clock.advance(600_000)
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    await ledgers_agree(desk)


async def test_without_an_acquirer_the_order_waits_for_an_operator(desk: Desk) -> None:
    """Operators are alerted once; an acquirer configured later is asked."""
    order = await unknown(desk)
    for _ in range(3):
        assert await inquire(desk, None) == 1
        desk.clock.advance(600_000)
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await alert_kinds(desk) == ["inquiry_needs_person"]
    acquirer = FakeAcquirer()
    acquirer.say(SAID)
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.PROCESSED
    await ledgers_agree(desk)


async def test_without_an_acquirer_an_ended_order_needs_no_operator(desk: Desk) -> None:
    """Its terminal reported the outcome."""
    order = await unknown(desk)
    answered(await desk.report(order, DECLINED))
    await inquire(desk, None)
    assert await inquiry(desk, order) == (1, "result")
    assert await alert_kinds(desk) == []


async def test_an_answer_after_the_end_of_the_inquiry_is_too_late(desk: Desk, acquirer: FakeAcquirer) -> None:
    """The inquiry was ended during the request: the order does not change."""
    order = await unknown(desk)

    async def end() -> None:
        now_ms = desk.clock.now_ms()
        await desk.database.write(lambda tx: inquiry_store.end(Change(tx, now_ms, PLAIN), order, "operator"))

    acquirer.say(SAID)
    acquirer.meanwhile = end
    await inquire(desk, acquirer)
    assert await desk.now(order) == order
    assert await inquiry(desk, order) == (1, "operator")


async def test_two_nodes_inquire_once(desk: Desk, acquirer: FakeAcquirer) -> None:
    """Both find it due; one claims it."""
    await unknown(desk)
    made = await asyncio.gather(*(inquire(desk, acquirer) for _ in range(4)))
    assert sum(made) == len(acquirer.asked) == 1


async def test_the_lease_of_a_dead_node_expires(desk: Desk, acquirer: FakeAcquirer) -> None:
    """Another node then claims it, by the machine's clock and not by the service's."""
    order = await unknown(desk)
    wall = MovableClock(frozen_ms=desk.clock.now_ms())

    async def die() -> None:
        raise asyncio.CancelledError

    acquirer.say(SAID)
    acquirer.meanwhile = die
    assert await inquire(desk, acquirer, wall=wall) == 1
    desk.clock.advance(3_600_000)
    wall.advance(24_000)
    assert await inquire(desk, acquirer, wall=wall) == 0
    wall.advance(2000)
    assert await inquire(desk, acquirer, wall=wall) == 1
    assert (await desk.now(order)).state == status.PROCESSED
    assert await inquiry(desk, order) == (2, "approved")


async def test_an_answer_after_the_lease_expired_does_not_overtake(desk: Desk, acquirer: FakeAcquirer) -> None:
    """A slow node got an approval; meanwhile another one found nothing and began to reverse, which counts."""
    order = await unknown(desk)
    wall, slow = MovableClock(frozen_ms=desk.clock.now_ms()), FakeAcquirer()
    slow.say(SAID)
    acquirer.answer(NOBODY_KNOWS, UNDONE)

    async def another() -> None:
        desk.clock.advance(600_000)
        wall.advance(71_000)
        assert await inquire(desk, acquirer, wall=wall) == 1

    slow.meanwhile = another
    await inquire(desk, slow, wall=wall)
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    desk.clock.advance(600_000)
    await inquire(desk, acquirer, wall=wall)
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    await ledgers_agree(desk)
