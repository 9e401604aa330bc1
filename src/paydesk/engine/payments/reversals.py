"""The worker of late approvals: confirms each by an inquiry, then reverses it at the acquirer.

The order never changes. The confirmation is committed before the reversal is requested, so that an attempt after a
crash does not take a reversed approval for an approval that never existed. The order's own payment is never reversed.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Literal

from msgspec.structs import replace

from paydesk.core.crash_points import reached
from paydesk.engine.orders import status
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import confirmation_store, reversal_store
from paydesk.engine.payments.acquirer import (
    Approved,
    Declined,
    InquiryResult,
    NotFound,
    NotSent,
    Outcome,
    ReverseResult,
    TooLate,
    Unknown,
)
from paydesk.engine.payments.acquirers import CheckedAcquirer
from paydesk.engine.payments.attempts import ReversingAttempt
from paydesk.engine.payments.jobs import NEVER_MS, AcquirerJob, describe
from paydesk.engine.payments.lifecycles import REVERSALS
from paydesk.engine.payments.outcomes import alert
from paydesk.engine.payments.reversal_store import Reversal

DAY_MS = 86_400_000
Decision = Literal["reverse", "unfounded", "retry"]


def decide(result: InquiryResult, order: Order, reference_id: str, *, is_final: bool) -> Decision:
    """Return what follows from an inquiry result for a late approval that its terminal reported as `reference_id`.

    If the order is paid, only an approval with another reference than its payment's is reversed. `is_final`: a payment
    that is not found now will not be made later.
    """
    if isinstance(result, Unknown | NotSent) or order.status in status.LIVE:
        return "retry"
    if order.paid_ms is not None:
        paid_reference = order.reference_id or (result.reference_id if isinstance(result, Approved) else "")
        return "unfounded" if reference_id in ("", paid_reference) else "reverse"
    if isinstance(result, NotFound):
        return "reverse" if is_final else "retry"
    return "unfounded" if isinstance(result, Declined) else "reverse"


class ReversalAttempt(ReversingAttempt[Reversal]):
    """One attempt of a reversal."""

    inquiry_event, reversal_event = "reversal_inquiry_answered", "reversal_answered"
    alert_kind = "reversal_needs_person"
    silence = "The late approval has not been reversed"

    def set_up(self) -> None:
        """Set what reversals have of their own."""
        row = self.row
        self._command = command = f"`paydesk reversals resolve {row.reversal_id}`"
        self.is_intended = row.confirmed is not None
        self.pauses_seconds = self.settings.reversal_pause_seconds
        self.log_facts = {"reversal": row.reversal_id}
        self.evidence = {"reversal_id": row.reversal_id, "reference_id": row.reference_id}
        self.no_acquirer = (
            "No acquirer is configured, so the late approval cannot be reversed. Set `acquirer`, or reverse it at the"
            f" acquirer and run {command}."
        )
        self.advice = f"Attempts continue. Check with the acquirer; if it is settled there, run {command}."

    async def ask(self, acquirer: CheckedAcquirer) -> None:
        """Make the attempt; of a reversal that came too late, by a refund."""
        if self.row.refunding_ms is None:
            await super().ask(acquirer)
            return
        result = await self.inquire(acquirer)
        if isinstance(result, Approved) and not result.needs_confirmation:
            if "refund" not in self.capabilities.idempotent:
                # An attempt that a crash cuts off is repeated.
                await self.commit(partial(self._leave_to_person, message="The acquirer could refund it twice."))
                return
            key, amount_minor = self.row.reversal_id, self.row.amount_minor
            refund = await acquirer.refund(
                self.payment, key=key, amount_minor=amount_minor, reference_id=result.reference_id
            )
            reached("asked")
            self.log("reversal_refund_answered", refund)
            await self.commit(lambda change, order: self._apply_refund(change, order, refund))
        else:
            await self.commit(lambda change, order: self._apply_before_refund(change, order, result))
        reached("outcome_committed")

    def request_reversal(self, acquirer: CheckedAcquirer) -> Awaitable[ReverseResult]:
        """Request it under the reversal's own id: the whole payment, or, if the order is paid, the other reference."""
        return acquirer.reverse(
            self.payment,
            key=self.row.reversal_id,
            amount_minor=self.row.amount_minor,
            reference_id=self.row.reference_id if self.order.paid_ms is not None else "",
            chip_data=self.row.chip_data or b"",
        )

    async def apply(self, change: Change, order: Order, result: InquiryResult) -> bool:
        """Commit that the approval is to be reversed, and return whether it is."""
        is_final = isinstance(result, NotFound) and self.is_final(result, change.now_ms)
        match decide(result, order, self.row.reference_id, is_final=is_final):
            case "reverse":
                if order.paid_ms is not None:
                    # With the amount that the terminal reported.
                    self.row = replace(self.row, confirmed="approved")
                elif isinstance(result, Approved):
                    self.row = replace(self.row, confirmed="approved", amount_minor=result.amount_minor)
                elif not self.capabilities.can_inquire:
                    # The terminal's report is all that is known.
                    self.row = replace(self.row, confirmed="approved")
                else:
                    self.row = replace(self.row, confirmed="not_found")
                return await reversal_store.confirm(change.tx, self.row)
            case "unfounded":
                await self._end_unfounded(change, order)
            case "retry":
                await self.retry(change, order, result)
        return False

    async def apply_reversal(self, change: Change, order: Order, outcome: ReverseResult) -> None:
        """End the reversal if the acquirer confirms it, or schedule a retry."""
        is_absent = isinstance(outcome, NotFound) and self.is_final(outcome, change.now_ms)
        if is_absent or (isinstance(outcome, Approved) and self.row.confirmed == "not_found"):
            await self._end_unfounded(change, order)
        elif isinstance(outcome, Approved):
            await self._end_reversed(change, order, outcome.reference_id)
        elif isinstance(outcome, TooLate) or self._is_over(change.now_ms):
            await self._apply_too_late(change, order, outcome)
        else:
            if isinstance(outcome, Declined):
                # It may have been reversed by other means, so the next attempt inquires again.
                await reversal_store.confirm(change.tx, replace(self.row, confirmed=None))
                message = f"The acquirer declined to reverse the late approval: {outcome.detail}."
                await self.alert_once(change, order, message)
            await self.retry(change, order, outcome)

    def _is_over(self, now_ms: int) -> bool:
        """Return whether the time in which the acquirer reverses is over for certain, though it has not said so."""
        until_ms = self.capabilities.reverse_until_ms(self.order.permitted_ms or self.order.created_ms)
        return until_ms is not None and now_ms >= until_ms + DAY_MS

    async def _apply_too_late(self, change: Change, order: Order, outcome: ReverseResult) -> None:
        can_refund = self.capabilities.after_reverse_until == "refund" and self.capabilities.can_inquire
        # An inquiry says nothing of an approval beside the order's own payment.
        can_refund = can_refund and order.paid_ms is None and await reversal_store.begin_refunding(change, self.row)
        if not can_refund:
            message = f"The late approval can no longer be reversed ({describe(outcome)})."
            await self._leave_to_person(change, order, message)
            return
        message = "The late approval can no longer be reversed. It is being refunded."
        await alert(change, order, "reversal_became_refund", message, self.evidence)
        await self.job.postpone(change.tx, self.row, change.now_ms)
        change.tx.notify("money")

    async def _apply_before_refund(self, change: Change, order: Order, result: InquiryResult) -> None:
        """Apply an inquiry's answer that leaves nothing to refund, or not yet: the approval is still provisional."""
        if isinstance(result, Declined | NotFound):
            # A reversal whose answer was lost has taken effect.
            await self._end_reversed(change, order, self.row.reference_id)
        else:
            await self.retry(change, order, result)

    async def _apply_refund(self, change: Change, order: Order, outcome: Outcome) -> None:
        if isinstance(outcome, Approved):
            await self._end_reversed(change, order, outcome.reference_id)
        elif isinstance(outcome, Declined):
            # Under the same key the acquirer would give the same answer.
            message = f"The acquirer declined to refund the late approval: {outcome.detail}."
            await self._leave_to_person(change, order, message)
        else:
            await self.retry(change, order, outcome)

    async def _leave_to_person(self, change: Change, order: Order, message: str) -> None:
        await self.alert_once(change, order, f"{message} Settle it with the acquirer, then run {self._command}.")
        await self.job.postpone(change.tx, self.row, NEVER_MS)

    async def _end_reversed(self, change: Change, order: Order, reference_id: str) -> None:
        if await reversal_store.end(change, self.row, "reversed"):
            await confirmation_store.forget(change, order)
            message = "The acquirer has confirmed the reversal of the late approval."
            body = {"reversal_id": self.row.reversal_id, "reference_id": reference_id}
            await alert(change, order, "late_approval_reversed", message, body)

    async def _end_unfounded(self, change: Change, order: Order) -> None:
        if await reversal_store.end(change, self.row, "not_found"):
            message = "The acquirer has no approval other than the order's own payment. There is nothing to reverse."
            await alert(change, order, "late_approval_unfounded", message, self.evidence)


JOB = AcquirerJob("reversal", REVERSALS, Reversal, "reversal_id", ReversalAttempt.process)
