"""The worker of unknown outcomes: asks the acquirer until the order has its one outcome.

A payment that the acquirer does not find for `inquiry_not_found_seconds` is reversed under its own key before the order
fails. The intent is committed first, so that nothing approves the order meanwhile. An order that ended during the
inquiry is left as it is; an approval of it is a late approval.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from paydesk.core.crash_points import reached
from paydesk.orders import status, store
from paydesk.orders.order import Order
from paydesk.payments import inquiry_store, outcomes, reversal_store
from paydesk.payments.acquirer import (
    Acquirer,
    Approved,
    Declined,
    InquiryResult,
    NotFound,
    NotSent,
    Outcome,
    Unknown,
    payment_of,
    response,
)
from paydesk.payments.inquiry_store import Inquiry
from paydesk.payments.jobs import LEASE_SECONDS, Job, JobWorker, commit, describe, log, next_attempt_ms
from paydesk.payments.outcomes import Paid, alert
from paydesk.storage.database import Transaction

if TYPE_CHECKING:
    import asyncio

    from paydesk.core.worker import WorkerContext
    from paydesk.settings import Settings

Decision = Literal["approve", "decline", "reverse", "retry"]
R = TypeVar("R")


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Process inquiries until `stop` is set."""
    await JobWorker(context, JOB).run(stop)


async def process(context: WorkerContext, inquiry: Inquiry) -> None:
    """Make one attempt: set the order's outcome from the inquiry result, or schedule a retry."""
    order = await context.database.read(lambda tx: store.find(tx, inquiry.seller_id, inquiry.order_id))
    assert order is not None, "an inquiry has an order"
    attempt = _Attempt(context, inquiry, order)
    acquirer = context.acquirer(live=bool(inquiry.live))
    if order.paid_ms is not None or (acquirer is None and order.status not in status.LIVE):
        await attempt.commit(_end_by_result)
    elif acquirer is None:
        await attempt.commit(attempt.wait_for_operator)
    elif inquiry.reversing_ms is not None or await attempt.inquire(acquirer):
        await attempt.reverse(acquirer)


JOB = Job(inquiry_store.QUEUE, process, lambda inquiry: f"inquiry of {inquiry.order_id}", LEASE_SECONDS)


def decide(result: InquiryResult, order: Order, *, waited_ms: int, not_found_ms: int) -> Decision:
    """Return what follows from an inquiry result for an order with an unknown outcome.

    An approval of another amount is reversed, and so is a payment that was not found for `not_found_ms`.
    """
    match result:
        case Approved():
            return "approve" if result.amount_minor == order.amount_minor else "reverse"
        case Declined():
            return "decline"
        case NotFound():
            return "reverse" if waited_ms >= not_found_ms else "retry"
        case Unknown() | NotSent():
            return "retry"


class _Attempt:
    """One attempt of an inquiry, step by step."""

    def __init__(self, context: WorkerContext, inquiry: Inquiry, order: Order) -> None:
        self._context, self._inquiry, self._order = context, inquiry, order
        self._settings: Settings = context.settings

    async def commit(self, change: Callable[[Transaction, Order, int], Awaitable[R]]) -> R:
        """Commit the effect of a step, with the order's row locked."""
        return await commit(self._context, self._order, change)

    async def inquire(self, acquirer: Acquirer) -> bool:
        """Ask the acquirer and apply its answer; return whether the payment is to be reversed."""
        result = await response(acquirer.inquire(payment_of(self._order)))
        reached("inquired")
        self._log("inquiry_answered", result)
        is_reversing = await self.commit(lambda tx, order, now_ms: self._apply(tx, order, result, now_ms))
        reached("intent_committed" if is_reversing else "outcome_committed")
        return is_reversing

    async def reverse(self, acquirer: Acquirer) -> None:
        """Reverse the payment under its own key, then fail the order."""
        payment = payment_of(self._order)
        outcome = await response(acquirer.reverse(payment, key=payment.payment_id, amount_minor=payment.amount_minor))
        reached("reversal_asked")
        self._log("inquiry_reversal_answered", outcome)
        await self.commit(lambda tx, order, now_ms: self._apply_reversal(tx, order, outcome, now_ms))
        reached("outcome_committed")

    async def wait_for_operator(self, tx: Transaction, order: Order, now_ms: int) -> None:
        """Alert operators that no acquirer is configured, and schedule a retry."""
        await self._alert_once(
            tx,
            order,
            now_ms,
            "No acquirer is configured, so the outcome cannot be inquired. Set `acquirer`, or resolve the order with"
            f" `paydesk orders resolve {order.order_id}`.",
        )
        await inquiry_store.postpone(tx, self._inquiry, now_ms + self._settings.inquiry_pause_seconds[-1] * 1000)

    async def _apply(self, tx: Transaction, order: Order, result: InquiryResult, now_ms: int) -> bool:
        waited_ms, not_found_ms = now_ms - self._inquiry.created_ms, self._settings.inquiry_not_found_seconds * 1000
        if order.paid_ms is not None:
            await _end_by_result(tx, order, now_ms)
            return False
        if await inquiry_store.status_of(tx, order) != "asking":
            # The inquiry has ended, or a later attempt is reversing the payment: this answer is too late.
            return False
        match decide(result, order, waited_ms=waited_ms, not_found_ms=not_found_ms):
            case "approve":
                assert isinstance(result, Approved)
                await _approve(tx, order, result, now_ms)
            case "decline":
                assert isinstance(result, Declined)
                detail = result.detail if result.detail in status.FAILED else "rejected_other_reason"
                await outcomes.decline(tx, order, now_ms, by="inquiry", detail=detail, origin="acquirer")
                await inquiry_store.end(tx, order, "declined", now_ms)
            case "reverse":
                if isinstance(result, Approved):
                    await _alert_amount_differs(tx, order, result, now_ms)
                return await inquiry_store.begin_reversing(tx, self._inquiry, now_ms)
            case "retry":
                retry_by_ms = not_found_ms if isinstance(result, NotFound) else 0
                await self._retry(tx, order, now_ms, describe(result), waited_ms, retry_by_ms)
        return False

    async def _apply_reversal(self, tx: Transaction, order: Order, outcome: Outcome, now_ms: int) -> None:
        if await inquiry_store.status_of(tx, order) == "ended":
            return
        if isinstance(outcome, Approved):
            await outcomes.decline(tx, order, now_ms, by="inquiry", detail="processing_error", origin="network")
            await inquiry_store.end(tx, order, "not_found", now_ms)
            return
        if isinstance(outcome, Declined):
            await inquiry_store.abandon_reversal(tx, self._inquiry)
            message = f"The acquirer declined to reverse the payment: {outcome.detail}."
            await self._alert_once(tx, order, now_ms, message)
        await self._retry(tx, order, now_ms, describe(outcome), now_ms - self._inquiry.created_ms)

    async def _retry(
        self, tx: Transaction, order: Order, now_ms: int, reason: str, waited_ms: int, not_found_ms: int = 0
    ) -> None:
        """Schedule a retry after the pause, and no later than `not_found_ms` after the inquiry began."""
        if waited_ms >= self._settings.acquirer_silent_seconds * 1000:
            await self._alert_once(
                tx,
                order,
                now_ms,
                f"The acquirer has not given an outcome of the payment for {waited_ms // 1000} s ({reason}). Inquiries"
                f" continue. To resolve the order yourself, run `paydesk orders resolve {order.order_id}`.",
            )
        at_ms = next_attempt_ms(self._inquiry.attempts, now_ms, self._settings.inquiry_pause_seconds)
        if waited_ms < not_found_ms:
            at_ms = min(at_ms, self._inquiry.created_ms + not_found_ms)
        await inquiry_store.postpone(tx, self._inquiry, at_ms)

    async def _alert_once(self, tx: Transaction, order: Order, now_ms: int, message: str) -> None:
        if await inquiry_store.mark_alerted(tx, self._inquiry, now_ms):
            await alert(tx, order, "inquiry_needs_person", message, now_ms, {"reason": self._inquiry.reason})

    def _log(self, event: str, result: InquiryResult) -> None:
        log.info(event, order=self._order.order_id, attempt=self._inquiry.attempts, outcome=describe(result))


async def _approve(tx: Transaction, order: Order, approved: Approved, now_ms: int) -> None:
    """Process the order; if it has ended otherwise, begin to reverse the late approval."""
    await inquiry_store.end(tx, order, "approved", now_ms)
    if await outcomes.approve(tx, order, now_ms, _paid(approved), by="inquiry") is None:
        await _reverse_late_approval(tx, order, approved, now_ms)


async def _reverse_late_approval(tx: Transaction, order: Order, approved: Approved, now_ms: int) -> None:
    assert order.status in status.FINAL, "a live order can be approved"
    begun = await reversal_store.begin(
        tx,
        order,
        now_ms,
        result_id=reversal_store.BY_INQUIRY,
        amount_minor=approved.amount_minor,
        reference_id=approved.reference_id,
    )
    if begun:
        message = "The acquirer approved the payment after its order had ended. The approval is being reversed."
        await alert(tx, order, "late_approval", message, now_ms, {"reference_id": approved.reference_id})


async def _end_by_result(tx: Transaction, order: Order, now_ms: int) -> None:
    """End the inquiry: the terminal or an operator has set the outcome."""
    await inquiry_store.end(tx, order, "result", now_ms)


async def _alert_amount_differs(tx: Transaction, order: Order, approved: Approved, now_ms: int) -> None:
    message = "The acquirer approved an amount other than the order's. The approval is reversed and the order fails."
    body = {
        "approved_minor": approved.amount_minor,
        "amount_minor": order.amount_minor,
        "reference_id": approved.reference_id,
    }
    await alert(tx, order, "approval_of_another_amount", message, now_ms, body)


def _paid(approved: Approved) -> Paid:
    card = approved.card
    if card is None:
        return Paid(approved.reference_id, approved.authorization_code)
    return Paid(
        approved.reference_id,
        approved.authorization_code,
        {"id": card.brand, "type": card.type, "installments": approved.installments},
        outcomes.card_digits(card),
    )
