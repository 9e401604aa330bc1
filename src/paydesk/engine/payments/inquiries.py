"""The worker of unknown outcomes: asks the acquirer until the order has its one outcome.

A payment that the acquirer does not find `inquiry_not_found_seconds` after the authorization permit is reversed under
its own key before the order fails. The intent is committed first, so that nothing approves the order meanwhile. An
order that ended during the inquiry is left as it is; an approval of it is a late approval.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Literal

from paydesk.engine.orders import status
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import confirmation_store, inquiry_store, outcomes, reversal_store
from paydesk.engine.payments.acquirer import (
    Approved,
    Declined,
    InquiryResult,
    NotFound,
    NotSent,
    ReverseResult,
    TooLate,
    Unknown,
)
from paydesk.engine.payments.acquirers import CheckedAcquirer
from paydesk.engine.payments.attempts import ReversingAttempt
from paydesk.engine.payments.inquiry_store import Inquiry
from paydesk.engine.payments.jobs import AcquirerJob
from paydesk.engine.payments.lifecycles import ASKING, ENDED, INQUIRIES, UNDONE
from paydesk.engine.payments.outcomes import alert
from paydesk.engine.payments.terms import Terms

SECOND_LOOK_MS = 600_000
"""After a payment that the acquirer did not find, and whose reversal blocks nothing."""
Decision = Literal["approve", "decline", "reverse", "retry"]
OTHER_AMOUNT = "The acquirer approved an amount other than the order's. The approval is reversed and the order fails."


def decide(result: InquiryResult, order: Order, terms: Terms, *, is_final: bool) -> Decision:
    """Return what follows from an inquiry result for an order with an unknown outcome.

    An approval of an amount that the terms do not allow is reversed, and so is a payment that is not found. `is_final`:
    a payment that is not found now will not be made later.
    """
    match result:
        case Approved():
            # If the service asked for it, the terminal never heard of it, and the card may not agree.
            is_undecided = result.needs_confirmation or (terms.requested is not None and terms.needs_confirmation)
            return "reverse" if is_undecided or terms.tip_of(order, result.amount_minor) is None else "approve"
        case Declined():
            return "decline"
        case NotFound():
            return "reverse" if is_final else "retry"
        case Unknown() | NotSent():
            return "retry"


class InquiryAttempt(ReversingAttempt[Inquiry]):
    """One attempt of an inquiry."""

    inquiry_event, reversal_event = "inquiry_answered", "inquiry_reversal_answered"
    alert_kind = "inquiry_needs_person"
    silence = "The acquirer has not given an outcome of the payment"

    def set_up(self) -> None:
        """Set what inquiries have of their own."""
        order, row = self.order, self.row
        self._charged_minor = self.payment.amount_minor if row.charged_minor is None else row.charged_minor
        command = f"`paydesk orders resolve {order.order_id}`"
        self.is_intended = row.reversing_ms is not None
        self.began_ms = row.created_ms if order.permitted_ms is None else order.permitted_ms
        self.pauses_seconds = self.settings.inquiry_pause_seconds
        self.log_facts = {}
        self.evidence = {"reason": row.reason}
        self.no_acquirer = (
            "No acquirer is configured, so the outcome cannot be inquired. Set `acquirer`, or resolve the order with"
            f" {command}."
        )
        self.advice = f"Inquiries continue. To resolve the order yourself, run {command}."

    async def make(self) -> None:
        """Make the attempt, unless the order has an outcome."""
        if self.order.paid_ms is not None or (self.acquirer is None and self.order.status not in status.LIVE):
            await self.commit(_end_by_result)
        else:
            await super().make()

    def request_reversal(self, acquirer: CheckedAcquirer) -> Awaitable[ReverseResult]:
        """Request the reversal of the payment under its own id."""
        return acquirer.reverse(
            self.payment,
            key=self.payment.payment_id,
            amount_minor=self._charged_minor,
            reference_id="" if self.approval is None else self.approval.reference_id,
        )

    async def inquire(self, acquirer: CheckedAcquirer) -> InquiryResult:
        """Return the outcome of the payment; an approval that is decided against is known, and is reversed unasked."""
        approval = self.approval
        if approval is not None and approval.status == UNDONE.name and approval.ended_ms is None:
            return Approved(approval.reference_id, approval.amount_minor, needs_confirmation=True)
        return self._decided(await super().inquire(acquirer), self._context.clock.now_ms())

    def _decided(self, result: InquiryResult, now_ms: int) -> InquiryResult:
        """Return what a provisional approval means where the terminal confirms it itself: at first, no outcome."""
        if not isinstance(result, Approved) or not result.needs_confirmation or self.terms.requested is not None:
            return result
        deadline_ms = self.capabilities.confirm_until_ms(self.began_ms)
        if deadline_ms is None or now_ms < deadline_ms or self.capabilities.at_deadline == "blocks":
            return Unknown("the terminal has not confirmed the approval")
        is_confirmed = self.capabilities.at_deadline == "confirms"
        return replace(result, needs_confirmation=False) if is_confirmed else Declined("processing_error")

    async def apply(self, change: Change, order: Order, result: InquiryResult) -> bool:
        """Apply the acquirer's answer; return whether the payment is to be reversed."""
        if order.paid_ms is not None:
            await _end_by_result(change, order)
            return False
        if await inquiry_store.status_of(change.tx, order) != ASKING.name:
            # The inquiry has ended, or a later attempt is reversing the payment: this answer is too late.
            return False
        is_final = isinstance(result, NotFound) and self.is_final(result, change.now_ms)
        if isinstance(result, NotFound) and is_final and self._is_second_look(order, result, change.now_ms):
            # There is nothing to reverse, and a reversal would block nothing.
            await inquiry_store.end(change, order, "not_found")
            return False
        match decide(result, order, self.terms, is_final=is_final):
            case "approve":
                assert isinstance(result, Approved)
                await _approve(change, order, result, self.terms)
            case "decline":
                assert isinstance(result, Declined)
                detail, digits = outcomes.detail_of(result), outcomes.requested_digits(self.terms.requested)
                await outcomes.decline(
                    change, order, by="inquiry", detail=detail, origin="acquirer", last_digits=digits
                )
                await inquiry_store.end(change, order, "declined")
            case "reverse":
                if isinstance(result, Approved):
                    # Kept, because every attempt under the same key has the same amount.
                    self._charged_minor = result.amount_minor
                if isinstance(result, Approved) and self.terms.tip_of(order, result.amount_minor) is None:
                    amounts = {"approved_minor": result.amount_minor, "amount_minor": order.amount_minor}
                    body = {**amounts, "reference_id": result.reference_id}
                    await alert(change, order, "approval_of_another_amount", OTHER_AMOUNT, body)
                # The authorization may have been answered meanwhile. From now on no answer changes the request.
                self.approval = await confirmation_store.find(change.tx, order)
                return await inquiry_store.begin_reversing(change, self.row, self._charged_minor)
            case "retry":
                await self.retry(change, order, result)
        return False

    async def apply_reversal(self, change: Change, order: Order, outcome: ReverseResult) -> None:
        """Fail the order if the payment is reversed, or schedule a retry."""
        if await inquiry_store.status_of(change.tx, order) == ENDED.name:
            return
        is_absent = isinstance(outcome, NotFound) and self.is_final(outcome, change.now_ms)
        if is_absent or isinstance(outcome, Approved | TooLate):
            await outcomes.decline(change, order, by="inquiry", detail="processing_error", origin="network")
            await confirmation_store.forget(change, order)
            if is_absent and self._has_second_look():
                # A request may be under way for longer: its approval would be late.
                await inquiry_store.abandon_reversal(change.tx, self.row)
                await self.job.postpone(change.tx, self.row, change.now_ms + SECOND_LOOK_MS)
                return
            await inquiry_store.end(change, order, "not_found")
            if isinstance(outcome, TooLate):
                await reversal_store.begin(change, order, self._charged_minor, confirmed="approved")
            return
        if isinstance(outcome, Declined):
            await inquiry_store.abandon_reversal(change.tx, self.row)
            await confirmation_store.forget(change, order)
            message = f"The acquirer declined to reverse the payment: {outcome.detail}."
            await self.alert_once(change, order, message)
        goes_on = self.capabilities.can_inquire or order.status in status.LIVE
        if isinstance(outcome, Unknown) and outcome.differs and not goes_on:
            # The payment was of another amount, so each answer differs. An operator has ended the order.
            await outcomes.alert_differing(change, order, outcome, self.evidence)
            await inquiry_store.end(change, order, "operator")
            return
        await self.retry(change, order, outcome)

    def _has_second_look(self) -> bool:
        """Return whether a payment that is neither there nor blocked is inquired about once more."""
        return self.capabilities.can_inquire and not self.capabilities.reversal_blocks

    def _is_second_look(self, order: Order, result: NotFound, now_ms: int) -> bool:
        """Return whether the order has ended, and its payment will not be made however long it was under way."""
        is_over = result.is_final or now_ms >= self.not_found_from_ms() + SECOND_LOOK_MS
        return self._has_second_look() and order.status not in status.LIVE and is_over


async def _approve(change: Change, order: Order, approved: Approved, terms: Terms) -> None:
    """Process the order; if it has ended otherwise, begin to reverse the late approval."""
    await inquiry_store.end(change, order, "approved")
    tip_minor = terms.tip_of(order, approved.amount_minor)
    assert tip_minor is not None, "an amount that the terms do not allow is reversed"
    paid = outcomes.paid_of(approved, terms.requested, tip_minor=tip_minor)
    if await outcomes.approve(change, order, paid, by="inquiry") is None:
        assert order.status in status.FINAL, "a live order can be approved"
        await outcomes.reverse_late_approval(change, order, approved)


async def _end_by_result(change: Change, order: Order) -> None:
    """End the inquiry: the terminal or an operator has set the outcome."""
    await inquiry_store.end(change, order, "result")


JOB = AcquirerJob("inquiry of", INQUIRIES, Inquiry, "order_id", InquiryAttempt.process)
