"""The worker of late approvals: confirms each by an inquiry, then reverses it at the acquirer.

The order never changes. The confirmation is committed before the reversal is requested, so that an attempt after a
crash does not take a reversed approval for one that never existed. The order's own payment is never reversed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeVar

from paydesk.core.crash_points import reached
from paydesk.orders import status, store
from paydesk.orders.change import Change
from paydesk.orders.order import Order
from paydesk.payments import reversal_store
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
from paydesk.payments.jobs import LEASE_SECONDS, Job, JobWorker, commit, describe, log, next_attempt_ms
from paydesk.payments.outcomes import alert
from paydesk.payments.reversal_store import Reversal

if TYPE_CHECKING:
    import asyncio

    from paydesk.core.worker import WorkerContext
    from paydesk.settings import Settings

Decision = Literal["reverse", "unfounded", "retry"]
R = TypeVar("R")


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Process reversals until `stop` is set."""
    await JobWorker(context, JOB).run(stop)


async def process(context: WorkerContext, reversal: Reversal) -> None:
    """Make one attempt: confirm and reverse the approval, end the reversal as unfounded, or schedule a retry."""
    order = await context.database.read(lambda tx: store.find(tx, reversal.seller_id, reversal.order_id))
    assert order is not None, "a reversal has an order"
    attempt = _Attempt(context, reversal, order)
    acquirer = context.acquirer(live=bool(reversal.live))
    if acquirer is None:
        await attempt.commit(attempt.wait_for_operator)
    elif reversal.confirmed is not None or await attempt.confirm(acquirer):
        await attempt.reverse(acquirer)


JOB = Job(reversal_store.QUEUE, process, lambda reversal: f"reversal {reversal.reversal_id}", LEASE_SECONDS)


def decide(result: InquiryResult, order: Order, reference_id: str, *, waited_ms: int, not_found_ms: int) -> Decision:
    """Return what follows from an inquiry result for a late approval that its terminal reported as `reference_id`.

    If the order is paid, only an approval with another reference than its payment's is reversed.
    """
    if isinstance(result, Unknown | NotSent) or order.status in status.LIVE:
        return "retry"
    if order.paid_ms is not None:
        paid_reference = order.reference_id or (result.reference_id if isinstance(result, Approved) else "")
        return "unfounded" if reference_id in ("", paid_reference) else "reverse"
    if isinstance(result, NotFound):
        return "reverse" if waited_ms >= not_found_ms else "retry"
    return "unfounded" if isinstance(result, Declined) else "reverse"


class _Attempt:
    """One attempt of a reversal, step by step."""

    def __init__(self, context: WorkerContext, reversal: Reversal, order: Order) -> None:
        self._context, self._reversal, self._order = context, reversal, order
        self._settings: Settings = context.settings

    async def commit(self, effect: Callable[[Change, Order], Awaitable[R]]) -> R:
        """Commit the effect of a step, with the order's row locked."""
        return await commit(self._context, self._order, effect)

    async def confirm(self, acquirer: Acquirer) -> bool:
        """Inquire whether the payment was approved; return whether it is to be reversed."""
        result = await response(acquirer.inquire(payment_of(self._order)))
        reached("inquired")
        self._log("reversal_inquiry_answered", result)
        is_confirmed = await self.commit(lambda change, order: self._apply(change, order, result))
        reached("intent_committed" if is_confirmed else "outcome_committed")
        return is_confirmed

    async def reverse(self, acquirer: Acquirer) -> None:
        """Reverse under the reversal's own key: the whole payment, or, if the order is paid, the other reference."""
        outcome = await response(
            acquirer.reverse(
                payment_of(self._order),
                key=self._reversal.reversal_id,
                amount_minor=self._reversal.amount_minor,
                reference_id=self._reversal.reference_id if self._order.paid_ms is not None else "",
            )
        )
        reached("reversal_asked")
        self._log("reversal_answered", outcome)
        await self.commit(lambda change, order: self._apply_reversal(change, order, outcome))
        reached("outcome_committed")

    async def wait_for_operator(self, change: Change, order: Order) -> None:
        """Alert operators that no acquirer is configured, and schedule a retry."""
        message = (
            "No acquirer is configured, so the late approval cannot be reversed. Set `acquirer`, or reverse it at the"
            f" acquirer and run `paydesk reversals resolve {self._reversal.reversal_id}`."
        )
        await self._alert_once(change, order, message)
        await reversal_store.postpone(
            change.tx, self._reversal, change.now_ms + self._settings.reversal_pause_seconds[-1] * 1000
        )

    async def _apply(self, change: Change, order: Order, result: InquiryResult) -> bool:
        waited_ms, not_found_ms = (
            change.now_ms - self._reversal.created_ms,
            self._settings.inquiry_not_found_seconds * 1000,
        )
        match decide(result, order, self._reversal.reference_id, waited_ms=waited_ms, not_found_ms=not_found_ms):
            case "reverse":
                self._reversal = self._confirmed(result, order)
                return await reversal_store.confirm(change.tx, self._reversal)
            case "unfounded":
                await self._end_unfounded(change, order)
            case "retry":
                retry_by_ms = not_found_ms if isinstance(result, NotFound) else 0
                await self._retry(change, order, describe(result), retry_by_ms)
        return False

    def _confirmed(self, result: InquiryResult, order: Order) -> Reversal:
        """Return the confirmed reversal, with the acquirer's amount if the order is unpaid, else the terminal's."""
        if isinstance(result, Approved) and order.paid_ms is None:
            return replace(self._reversal, confirmed="approved", amount_minor=result.amount_minor)
        return replace(self._reversal, confirmed="approved" if order.paid_ms is not None else "not_found")

    async def _apply_reversal(self, change: Change, order: Order, outcome: Outcome) -> None:
        if isinstance(outcome, Approved) and self._reversal.confirmed == "not_found":
            await self._end_unfounded(change, order)
        elif isinstance(outcome, Approved):
            if await reversal_store.end(change, self._reversal, "reversed"):
                message = "The acquirer has confirmed the reversal of the late approval."
                body = {"reversal_id": self._reversal.reversal_id, "reference_id": outcome.reference_id}
                await alert(change, order, "late_approval_reversed", message, body)
        else:
            if isinstance(outcome, Declined):
                # It may have been reversed by other means, so the next attempt inquires again.
                await reversal_store.confirm(change.tx, replace(self._reversal, confirmed=None))
                message = f"The acquirer declined to reverse the late approval: {outcome.detail}."
                await self._alert_once(change, order, message)
            await self._retry(change, order, describe(outcome))

    async def _end_unfounded(self, change: Change, order: Order) -> None:
        if await reversal_store.end(change, self._reversal, "not_found"):
            message = "The acquirer has no approval other than the order's own payment. There is nothing to reverse."
            await alert(change, order, "late_approval_unfounded", message, self._evidence())

    async def _retry(self, change: Change, order: Order, reason: str, not_found_ms: int = 0) -> None:
        """Schedule a retry after the pause, and no later than `not_found_ms` after the reversal began."""
        waited_ms = change.now_ms - self._reversal.created_ms
        if waited_ms >= self._settings.acquirer_silent_seconds * 1000:
            message = (
                f"The late approval has not been reversed for {waited_ms // 1000} s ({reason}). Attempts continue."
                " Check with the acquirer; if it is settled there, run"
                f" `paydesk reversals resolve {self._reversal.reversal_id}`."
            )
            await self._alert_once(change, order, message)
        at_ms = next_attempt_ms(self._reversal.attempts, change.now_ms, self._settings.reversal_pause_seconds)
        if waited_ms < not_found_ms:
            at_ms = min(at_ms, self._reversal.created_ms + not_found_ms)
        await reversal_store.postpone(change.tx, self._reversal, at_ms)

    async def _alert_once(self, change: Change, order: Order, message: str) -> None:
        if await reversal_store.mark_alerted(change, self._reversal):
            await alert(change, order, "reversal_needs_person", message, self._evidence())

    def _evidence(self) -> dict[str, str]:
        return {"reversal_id": self._reversal.reversal_id, "reference_id": self._reversal.reference_id}

    def _log(self, event: str, result: InquiryResult) -> None:
        log.info(
            event,
            order=self._order.order_id,
            reversal=self._reversal.reversal_id,
            attempt=self._reversal.attempts,
            outcome=describe(result),
        )
