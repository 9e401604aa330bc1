"""Unknown outcomes: the acquirer is asked until the order has its one outcome, and is never charged again."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from asking_scene import (
    REFERENCE,
    SAID,
    UNDONE,
    ToldAcquirer,
    context_of,
    give_back,
    inquire,
    inquiry,
    reversals_of,
    told,
    unknown,
)
from device_scene import APPROVED, CANCELED, DECLINED, UNKNOWN, Desk, answered, open_desk, refused
from paydesk.core.clock import MovableClock
from paydesk.health.clock import ClockJumped, WatchedClock
from paydesk.invariants import check
from paydesk.orders import status
from paydesk.payments import inquiries, inquiry_store
from paydesk.payments.acquirer import Acquirers, Approved, Declined, InquiryResult, NotFound, NotSent, Outcome, Unknown
from paydesk.payments.inquiry_store import Inquiry
from paydesk.payments.jobs import JobQueue, JobWorker
from paydesk.storage.database import Database, Transaction

NOBODY_KNOWS = Unknown("the answer was lost")


@pytest.fixture
async def desk(database: Database) -> Desk:
    """A terminal that has said hello."""
    return await open_desk(database)


@pytest.fixture
def acquirer() -> ToldAcquirer:
    """It knows of nothing yet."""
    return ToldAcquirer()


async def sound(desk: Desk) -> None:
    """The books agree."""
    assert await check.check(desk.database, desk.clock.now_ms()) == []


async def test_a_clock_that_jumps_while_it_is_looked_for_what_is_due_claims_nothing(
    desk: Desk, acquirer: ToldAcquirer
) -> None:
    """What it claimed it would hold for as long as it is off."""
    order, wall = await unknown(desk), MovableClock(frozen_ms=desk.clock.now_ms())
    watched = WatchedClock(lambda: wall.now_ms() * 1_000_000, lambda: 0)

    class Jumping(JobQueue[Inquiry]):
        async def sellers(self, tx: Transaction, now_ms: int, wall_ms: int) -> list[int]:
            wall.advance(28 * 3_600_000)
            return await JobQueue.sellers(self, tx, now_ms, wall_ms)

    due = inquiry_store.QUEUE
    jumping = Jumping(due.sellers_due, due.next_due, due.claim_due, due.row)
    context = replace(context_of(desk, Acquirers(test=acquirer)), clock=watched)
    worker = JobWorker(context, replace(inquiries.JOB, queue=jumping), wall=wall)
    with pytest.raises(ClockJumped):
        await worker.step()
    acquirer.say(SAID)
    assert await inquire(desk, acquirer, wall=desk.clock) == 1
    assert (await desk.now(order)).state == status.PROCESSED


async def test_what_the_acquirer_approved_is_processed_with_what_it_says(desk: Desk, acquirer: ToldAcquirer) -> None:
    """The first inquiry is made at once; reference, code, card and installments are the acquirer's."""
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
    await sound(desk)


@pytest.mark.parametrize(
    ("said", "shown"),
    [("insufficient_amount", "insufficient_amount"), ("a_word_of_its_own", "rejected_other_reason")],
)
async def test_what_the_acquirer_declined_fails(desk: Desk, acquirer: ToldAcquirer, said: str, shown: str) -> None:
    """With its detail, or with the general one where the interface has no word for it."""
    order = await unknown(desk)
    acquirer.say(Declined(said))
    await inquire(desk, acquirer)
    failed = await desk.now(order)
    assert (failed.state, failed.origin) == (status.FAILED[shown], "acquirer")
    assert await inquiry(desk, order) == (1, "declined")
    await sound(desk)


@pytest.mark.parametrize("said", [NOBODY_KNOWS, NotSent("the line is down")])
async def test_it_is_asked_again_after_growing_pauses(desk: Desk, acquirer: ToldAcquirer, said: InquiryResult) -> None:
    """At once, then after 10 s, 30 s, 1, 2, 5, 10 and 10 min; the operators hear of it once, after an hour."""
    order = await unknown(desk)
    acquirer.say(said)
    for pause in (10, 30, 60, 120, 300, 600, 600, 600, 600, 600, 600):
        assert await inquire(desk, acquirer) == 1
        desk.clock.advance(pause * 1000 - 1)
        assert await inquire(desk, acquirer) == 0
        desk.clock.advance(1)
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await told(desk) == []
    await inquire(desk, acquirer)
    desk.clock.advance(600_000)
    await inquire(desk, acquirer)
    assert await told(desk) == ["inquiry_needs_person"]
    assert acquirer.reversed_keys == []
    acquirer.say(SAID)
    desk.clock.advance(600_000)
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.PROCESSED
    await sound(desk)


async def test_what_is_not_found_for_ten_minutes_is_undone_and_fails(desk: Desk, acquirer: ToldAcquirer) -> None:
    """Not a second sooner, the reversal first and under the payment's own key: failed, not canceled."""
    order = await unknown(desk)
    began_ms = desk.clock.now_ms()
    while desk.clock.now_ms() < began_ms + 599_000:
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
    await sound(desk)


async def _not_found_for_long(desk: Desk, acquirer: ToldAcquirer, *outcomes: Outcome) -> None:
    """Bring on an order whose payment is about to be undone, with these outcomes; nothing asked yet but once."""
    acquirer.answer(*outcomes)
    await inquire(desk, acquirer)
    desk.clock.advance(600_000)
    acquirer.asked.clear()


async def test_a_reversal_without_an_answer_is_asked_for_again_and_nothing_else(
    desk: Desk, acquirer: ToldAcquirer
) -> None:
    """The same key until it is confirmed; nobody inquires meanwhile, since an approval would not count any more."""
    order = await unknown(desk)
    await _not_found_for_long(desk, acquirer, NOBODY_KNOWS, NotSent("the line is down"), UNDONE)
    acquirer.say(NotFound(), SAID)
    for _ in range(3):
        assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
        assert await inquire(desk, acquirer) == 1
        desk.clock.advance(600_000)
    assert [call[0] for call in acquirer.asked] == ["inquire", "reverse", "reverse", "reverse"]
    assert set(acquirer.reversed_keys) == {f"PAY{order.ulid}"}
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    await sound(desk)


async def test_a_terminals_approval_while_it_is_undone_is_a_late_one(desk: Desk, acquirer: ToldAcquirer) -> None:
    """Recorded and refused; the order fails as it was about to, and the approval is given back."""
    order = await unknown(desk)
    await _not_found_for_long(desk, acquirer, NOBODY_KNOWS, UNDONE)
    await inquire(desk, acquirer)
    outcome = await desk.report(order, APPROVED)
    assert refused(outcome) == "result_conflict"
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await told(desk) == ["late_approval"]
    acquirer.say(SAID)
    # The order has not ended yet: what is to be given back waits for that.
    assert await give_back(desk, acquirer) == 1
    assert len(acquirer.reversed_keys) == 1
    desk.clock.advance(600_000)
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    await give_back(desk, acquirer)
    ((reversal_id, _, _, how_far),) = await reversals_of(desk, order)
    assert (acquirer.reversed_keys[-1], how_far) == (reversal_id, "reversed")
    assert await told(desk) == ["late_approval", "late_approval_reversed"]
    await sound(desk)


async def test_a_terminals_decline_while_it_is_undone_ends_the_order(desk: Desk, acquirer: ToldAcquirer) -> None:
    """Nothing was charged, says the terminal too: its detail is the order's."""
    order = await unknown(desk)
    await _not_found_for_long(desk, acquirer, NOBODY_KNOWS, UNDONE)
    await inquire(desk, acquirer)
    answered(await desk.report(order, DECLINED))
    desk.clock.advance(600_000)
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.FAILED["insufficient_amount"]
    assert (await inquiry(desk, order))[1] == "not_found"
    await sound(desk)


async def test_an_acquirer_that_refuses_to_undo_is_asked_again_what_is_true(desk: Desk, acquirer: ToldAcquirer) -> None:
    """The operators are told, once; when it then says approved, the order is processed after all."""
    order = await unknown(desk)
    await _not_found_for_long(desk, acquirer, Declined("processing_error"))
    for _ in range(3):
        await inquire(desk, acquirer)
        desk.clock.advance(600_000)
    assert await told(desk) == ["inquiry_needs_person"]
    acquirer.say(SAID)
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.PROCESSED
    await sound(desk)


async def test_an_approval_of_another_amount_is_undone_and_the_order_fails(desk: Desk, acquirer: ToldAcquirer) -> None:
    """`processed` can be trusted alone: at once, without waiting for ten minutes, and the operators know."""
    order = await unknown(desk)
    acquirer.say(Approved(REFERENCE, 2491))
    await inquire(desk, acquirer)
    assert acquirer.reversed_keys == [f"PAY{order.ulid}"]
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    assert await told(desk) == ["approval_of_another_amount"]
    await sound(desk)


async def test_a_result_that_comes_while_the_acquirer_is_asked_is_the_outcome(
    desk: Desk, acquirer: ToldAcquirer
) -> None:
    """The terminal was first: the acquirer's word changes nothing, and nothing is given back."""
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
    await sound(desk)


async def test_a_result_that_comes_after_the_acquirers_word_is_evidence(desk: Desk, acquirer: ToldAcquirer) -> None:
    """The same approval told again is recorded; it is the payment that the order has, and is not given back."""
    order = await unknown(desk)
    acquirer.say(SAID)
    await inquire(desk, acquirer)
    assert refused(await desk.report(order, {**APPROVED, "reference_id": REFERENCE})) == "order_finished"
    assert await reversals_of(desk, order) == []
    assert await desk.rows("SELECT verdict FROM results ORDER BY created_ms") == [("taken",), ("finished",)]
    await sound(desk)


async def test_an_approval_that_the_acquirer_tells_of_after_a_decline_is_given_back(
    desk: Desk, acquirer: ToldAcquirer
) -> None:
    """The terminal ended the order as declined meanwhile: it stays so, and the money goes back."""
    order = await unknown(desk)

    async def report() -> None:
        answered(await desk.report(order, DECLINED))

    acquirer.say(SAID)
    acquirer.meanwhile = report
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.FAILED["insufficient_amount"]
    assert await told(desk) == ["late_approval"]
    await give_back(desk, acquirer)
    ((reversal_id, reference_id, amount_minor, how_far),) = await reversals_of(desk, order)
    assert (reference_id, amount_minor, how_far) == (REFERENCE, 2490, "reversed")
    assert acquirer.reversed_keys == [reversal_id]
    await sound(desk)


@pytest.mark.parametrize(
    ("raw", "code"), [(UNKNOWN, "order_finished"), (b"{", "result_conflict")], ids=["unknown", "unreadable"]
)
async def test_an_order_that_ended_before_its_terminal_knew_no_outcome_is_asked_about(
    desk: Desk, acquirer: ToldAcquirer, raw: dict[str, str] | bytes, code: str
) -> None:
    """It stays canceled, and what its buyer was charged all the same goes back."""
    order = await desk.order()
    await desk.move(status.CANCEL, order)
    assert refused(await desk.report(order, raw)) == code
    acquirer.say(NotFound(), SAID)
    for _ in range(2):
        await inquire(desk, acquirer)
        desk.clock.advance(10_000)
    await give_back(desk, acquirer)
    assert (await desk.now(order)).state == status.CANCELED_BY_API
    ((reversal_id, reference_id, amount_minor, how_far),) = await reversals_of(desk, order)
    assert (reference_id, amount_minor, how_far) == (REFERENCE, 2490, "reversed")
    assert acquirer.reversed_keys == [reversal_id]
    await sound(desk)


async def test_an_unknown_outcome_of_a_paid_order_asks_nobody(desk: Desk) -> None:
    """Its payment is known."""
    order = await desk.granted()
    answered(await desk.report(order, APPROVED))
    assert refused(await desk.report(order, UNKNOWN)) == "order_finished"
    assert await desk.rows("SELECT order_id FROM inquiries") == []


async def test_a_declined_order_is_asked_about_to_the_end(desk: Desk, acquirer: ToldAcquirer) -> None:
    """Its terminal said unknown, then declined: the acquirer's later approval is found all the same."""
    order = await unknown(desk)
    acquirer.say(NOBODY_KNOWS, SAID)
    await inquire(desk, acquirer)
    answered(await desk.report(order, DECLINED))
    desk.clock.advance(10_000)
    await inquire(desk, acquirer)
    assert len(await reversals_of(desk, order)) == 1
    assert (await inquiry(desk, order))[1] == "approved"
    await sound(desk)


async def test_what_was_reported_as_canceled_after_the_grant_fails(desk: Desk, acquirer: ToldAcquirer) -> None:
    """After the grant nothing is canceled: what was never charged ends as failed/processing_error."""
    order = await desk.granted()
    assert refused(await desk.report(order, CANCELED)) == "result_conflict"
    await inquire(desk, acquirer)
    desk.clock.advance(600_000)
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    await sound(desk)


async def test_without_an_acquirer_the_order_waits_for_an_operator(desk: Desk) -> None:
    """They are told once, however long it waits; an acquirer that is configured later is asked."""
    order = await unknown(desk)
    for _ in range(3):
        assert await inquire(desk, None) == 1
        desk.clock.advance(600_000)
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await told(desk) == ["inquiry_needs_person"]
    acquirer = ToldAcquirer()
    acquirer.say(SAID)
    await inquire(desk, acquirer)
    assert (await desk.now(order)).state == status.PROCESSED
    await sound(desk)


async def test_without_an_acquirer_an_order_that_ended_is_not_asked_about(desk: Desk) -> None:
    """Its terminal told the outcome after all: there is nothing that a person need do."""
    order = await unknown(desk)
    answered(await desk.report(order, DECLINED))
    await inquire(desk, None)
    assert await inquiry(desk, order) == (1, "result")
    assert await told(desk) == []


async def test_an_answer_after_the_inquirys_end_comes_too_late(desk: Desk, acquirer: ToldAcquirer) -> None:
    """Somebody ended it while the acquirer was asked: the order waits for whoever that was."""
    order = await unknown(desk)

    async def end() -> None:
        await desk.database.write(lambda tx: inquiry_store.end(tx, order, "operator", desk.clock.now_ms()))

    acquirer.say(SAID)
    acquirer.meanwhile = end
    await inquire(desk, acquirer)
    assert await desk.now(order) == order
    assert await inquiry(desk, order) == (1, "operator")


async def test_two_nodes_ask_once(desk: Desk, acquirer: ToldAcquirer) -> None:
    """Both find it due at the same moment; one of them has it to itself."""
    await unknown(desk)
    made = await asyncio.gather(*(inquire(desk, acquirer) for _ in range(4)))
    assert sum(made) == len(acquirer.asked) == 1


async def test_a_node_that_dies_leaves_a_claim_that_runs_out(desk: Desk, acquirer: ToldAcquirer) -> None:
    """Another takes it up afterwards, by the machine's clock and not by one that a developer moves."""
    order = await unknown(desk)
    wall = MovableClock(frozen_ms=desk.clock.now_ms())

    async def die() -> None:
        raise RuntimeError("the node dies")

    acquirer.say(SAID)
    acquirer.meanwhile = die
    assert await inquire(desk, acquirer, wall=wall) == 1
    desk.clock.advance(3_600_000)
    wall.advance(69_000)
    assert await inquire(desk, acquirer, wall=wall) == 0
    wall.advance(2000)
    assert await inquire(desk, acquirer, wall=wall) == 1
    assert (await desk.now(order)).state == status.PROCESSED
    assert await inquiry(desk, order) == (2, "approved")


async def test_an_answer_that_comes_after_the_claim_ran_out_does_not_overtake(
    desk: Desk, acquirer: ToldAcquirer
) -> None:
    """A slow node heard approved; meanwhile another found nothing and began to undo it: that stands."""
    order = await unknown(desk)
    wall, slow = MovableClock(frozen_ms=desk.clock.now_ms()), ToldAcquirer()
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
    await sound(desk)
