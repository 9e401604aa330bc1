"""The worker of confirmations: sends the third message, and undoes an approval that its terminal did not decide on.

The order is processed before its confirmation is sent, and stays so: the goods are handed over. If the acquirer does
not confirm, a person has to look.
"""

from __future__ import annotations

from typing import Literal

from paydesk.core.crash_points import reached
from paydesk.engine.orders import status, store
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import confirmation_store, reversal_store
from paydesk.engine.payments.acquirer import (
    Approved,
    ConfirmResult,
    Declined,
    InquiryResult,
    NotFound,
    NotSent,
    Result,
    TooLate,
    Unknown,
)
from paydesk.engine.payments.acquirers import CheckedAcquirer
from paydesk.engine.payments.attempts import Attempt
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.confirmation_store import Confirmation
from paydesk.engine.payments.jobs import NEVER_MS, AcquirerJob, describe
from paydesk.engine.payments.lifecycles import CONFIRMATIONS, PROVISIONAL
from paydesk.engine.payments.outcomes import alert
from paydesk.platform.metrics.database import COUNTED_MAX, DatabaseGauge, Reading

Decision = Literal["confirmed", "refused", "retry"]


async def _undo(change: Change, order: Order) -> None:
    """Undo the approval, unless its terminal has decided meanwhile."""
    if order.status in status.LIVE:
        await store.move(change, status.CHECK, order, origin="terminal")
        await store.inquire(change, order, "the terminal did not report on the approval in time")
        return
    approval = await confirmation_store.find(change.tx, order)
    if approval is not None and await confirmation_store.undo(change, order):
        await reversal_store.begin(change, order, approval.amount_minor, approval.reference_id, confirmed="approved")


def is_to_be_inquired(answer: ConfirmResult, capabilities: Capabilities, *, is_late: bool) -> bool:
    """Return whether only an inquiry can say what became of the payment. `is_late`: after the acquirer's deadline."""
    if isinstance(answer, Approved) or not capabilities.can_inquire:
        return False
    return isinstance(answer, Declined) or (is_late and capabilities.at_deadline != "blocks")


def decide(
    answer: ConfirmResult, inquired: InquiryResult | None, capabilities: Capabilities, *, is_late: bool, is_final: bool
) -> Decision:
    """Return the decision on the acquirer's answer, and on that of an inquiry if the attempt made it.

    `is_final`: a payment that the acquirer does not find will not be made later.
    """
    if inquired is not None:
        return _decide_inquired(inquired)
    match answer:
        case Approved():
            return "confirmed"
        case Declined():
            return "refused"
        case NotFound() if is_final:
            return "refused"
    if is_late and capabilities.at_deadline != "blocks":
        return "confirmed" if capabilities.at_deadline == "confirms" else "refused"
    return "retry"


def _decide_inquired(inquired: InquiryResult) -> Decision:
    match inquired:
        case Approved():
            return "retry" if inquired.needs_confirmation else "confirmed"
        case Declined() | NotFound():
            return "refused"
        case Unknown() | NotSent():
            return "retry"


class ConfirmationAttempt(Attempt[Confirmation]):
    """One attempt to confirm an approval that its terminal has reported, or to undo one without a result in time."""

    alert_kind = "confirmation_needs_person"
    silence = "The acquirer has not confirmed the payment"
    advice = "Attempts continue. Check with the acquirer."

    def set_up(self) -> None:
        """Set what confirmations have of their own."""
        self.began_ms = self.row.approved_ms
        self.pauses_seconds = self.settings.reversal_pause_seconds
        self._margin_ms = self.settings.confirm_margin_seconds * 1000
        self.log_facts = {}
        self.evidence = {"reference_id": self.row.reference_id}
        self.no_acquirer = (
            "No acquirer is configured, so the payment cannot be confirmed, and may not be paid out. Set `acquirer`."
        )

    async def make(self) -> None:
        """Make the attempt; an approval without a result in time is undone without the acquirer."""
        if self.row.status == PROVISIONAL.name:
            await self.commit(_undo)
            reached("outcome_committed")
        else:
            await super().make()

    async def ask(self, acquirer: CheckedAcquirer) -> None:
        """Send the confirmation, and inquire where its answer does not say what became of the payment."""
        row, inquired = self.row, None
        answer = await acquirer.confirm(self.payment, reference_id=row.reference_id, chip_data=row.chip_data or b"")
        reached("asked")
        self.log("confirmation_answered", answer)
        is_late = isinstance(answer, TooLate) or self._is_over(self._context.clock.now_ms())
        if is_to_be_inquired(answer, self.capabilities, is_late=is_late):
            inquired = await acquirer.inquire(self.payment)
            reached("inquired")
            self.log("confirmation_inquiry_answered", inquired)
        await self.commit(lambda change, order: self._apply(change, order, answer, inquired, is_late=is_late))
        reached("outcome_committed")

    def retry_ms(self, now_ms: int, result: Result) -> int:
        """Return the time of the next attempt, in time to call a person, and once before the deadline."""
        at_ms, deadline_ms, margin_ms = super().retry_ms(now_ms, result), self.row.deadline_ms, self._margin_ms
        early_ms = () if deadline_ms is None else (deadline_ms - 2 * margin_ms, deadline_ms - margin_ms)
        return min(at_ms, *[time_ms for time_ms in early_ms if time_ms > now_ms], NEVER_MS)

    def _is_over(self, now_ms: int) -> bool:
        return self.row.deadline_ms is not None and now_ms >= self.row.deadline_ms

    async def _apply(
        self, change: Change, order: Order, answer: ConfirmResult, inquired: InquiryResult | None, *, is_late: bool
    ) -> None:
        is_final = isinstance(answer, NotFound) and self.is_final(answer, change.now_ms)
        match decide(answer, inquired, self.capabilities, is_late=is_late, is_final=is_final):
            case "confirmed":
                await confirmation_store.end(change, self.row, "confirmed")
            case "refused":
                if await confirmation_store.end(change, self.row, "refused"):
                    message = (
                        f"The acquirer does not confirm the payment ({describe(answer)}), so that it is not paid out,"
                        " though the goods were handed over. Settle it with the acquirer or the buyer, then run"
                        f" `paydesk confirmations resolve {order.order_id}`."
                    )
                    await alert(change, order, "confirmation_refused", message, self.evidence)
            case "retry":
                deadline_ms = self.row.deadline_ms
                if is_late or (deadline_ms is not None and change.now_ms >= deadline_ms - 2 * self._margin_ms):
                    message = f"{self.silence}, and its deadline is near or over ({describe(answer)}). {self.advice}"
                    await self.alert_once(change, order, message)
                await self.retry(change, order, answer)


JOB = AcquirerJob("confirmation of", CONFIRMATIONS, Confirmation, "order_id", ConfirmationAttempt.process)

_NEXT_DEADLINE = DatabaseGauge(
    "paydesk_confirmation_deadline_seconds", "Until the acquirer's first deadline of a live confirmation; +Inf: none."
)
NEXT_DEADLINE = Reading(
    f"""
SELECT (MIN(deadline_ms) - CAST($1 AS bigint)) / 1000.0
  FROM (SELECT deadline_ms FROM confirmations WHERE live = 1 AND {CONFIRMATIONS.open} AND seller_id > 0
         ORDER BY created_ms LIMIT {COUNTED_MAX}) AS oldest""",
    ((_NEXT_DEADLINE, ()),),
    lambda now_ms, _: (now_ms,),
)
