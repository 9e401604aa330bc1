"""The worker of late approvals: confirmed by an inquiry, then given back at the acquirer until it confirms.

The order never changes. That the acquirer has confirmed the approval is committed before it is asked to reverse it, so
that after a crash it is not taken for one that never was. What goes back is never the payment that the order has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from paydesk.core.crash_points import reached
from paydesk.orders import store
from paydesk.orders.order import Order
from paydesk.payments import inquiry_results, reversal_store
from paydesk.payments.acquirer import Acquirer, Approved, Declined, NotFound, Outcome, Truth
from paydesk.payments.alerts import tell
from paydesk.payments.jobs import CLAIM_SECONDS, Job, JobWorker, commit, log, shown
from paydesk.payments.requests import answer_of, next_ms, payment_of
from paydesk.payments.reversal_store import Reversal
from paydesk.storage.database import Transaction

if TYPE_CHECKING:
    import asyncio

    from paydesk.core.worker import WorkerContext
    from paydesk.settings import Settings

R = TypeVar("R")


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Give late approvals back until told to stop."""
    await JobWorker(context, JOB).run(stop)


async def process(context: WorkerContext, reversal: Reversal) -> None:
    """One attempt: confirmed and given back, found to be nothing, or tried again later."""
    order = await context.database.read(lambda tx: store.find(tx, reversal.seller_id, reversal.order_id))
    assert order is not None, "a reversal has an order"
    steps = _Steps(context, reversal, order)
    acquirer = context.acquirer(live=bool(reversal.live))
    if acquirer is None:
        await steps.commit(steps.wait_for_operator)
    elif reversal.confirmed is not None or await steps.confirm(acquirer):
        await steps.reverse(acquirer)


JOB = Job(reversal_store.DUE, process, lambda reversal: f"reversal {reversal.reversal_id}", CLAIM_SECONDS)


class _Steps:
    """One attempt of a reversal, step by step."""

    def __init__(self, context: WorkerContext, reversal: Reversal, order: Order) -> None:
        self._context, self._reversal, self._order = context, reversal, order
        self._settings: Settings = context.settings

    async def commit(self, change: Callable[[Transaction, Order, int], Awaitable[R]]) -> R:
        """Write down what came of a step, with the order held meanwhile."""
        return await commit(self._context, self._order, change)

    async def confirm(self, acquirer: Acquirer) -> bool:
        """Ask whether it was approved; whether it is to be given back."""
        said = await answer_of(acquirer.inquire(payment_of(self._order)))
        reached("inquired")
        self._log("inquiry of a late approval", said)

        async def take(tx: Transaction, order: Order, now_ms: int) -> bool:
            return await self._take(tx, order, said, now_ms)

        is_confirmed = await self.commit(take)
        reached("intent_committed" if is_confirmed else "outcome_committed")
        return is_confirmed

    async def reverse(self, acquirer: Acquirer) -> None:
        """Give it back, under the reversal's own key: the whole payment, or what goes by the other reference."""
        outcome = await answer_of(
            acquirer.reverse(
                payment_of(self._order),
                key=self._reversal.reversal_id,
                amount_minor=self._reversal.amount_minor,
                reference_id=self._reversal.reference_id if self._order.paid_ms is not None else "",
            )
        )
        reached("reversal_asked")
        self._log("reversal", outcome)

        async def take(tx: Transaction, order: Order, now_ms: int) -> None:
            await self._take_reversal(tx, order, outcome, now_ms)

        await self.commit(take)
        reached("outcome_committed")

    async def wait_for_operator(self, tx: Transaction, order: Order, now_ms: int) -> None:
        """Nobody can be asked: a person has to see to it."""
        message = (
            "No acquirer is configured that could give the late approval back: set `acquirer`, or do it there and end"
            f" it with `paydesk reversals resolve {self._reversal.reversal_id}`."
        )
        await self._alert_once(tx, order, now_ms, message)
        await reversal_store.postpone(tx, self._reversal, now_ms + self._settings.reversal_pause_seconds[-1] * 1000)

    async def _take(self, tx: Transaction, order: Order, said: Truth, now_ms: int) -> bool:
        waited_ms, not_found_ms = now_ms - self._reversal.created_ms, self._settings.inquiry_not_found_seconds * 1000
        verdict = inquiry_results.of_late_approval(
            said, order, self._reversal.reference_id, waited_ms=waited_ms, not_found_ms=not_found_ms
        )
        match verdict:
            case "reverse":
                self._reversal = self._confirmed(said, order)
                return await reversal_store.confirm(tx, self._reversal)
            case "unfounded":
                await self._end_unfounded(tx, order, now_ms)
            case "again":
                await self._again(tx, order, now_ms, shown(said), not_found_ms if isinstance(said, NotFound) else 0)
        return False

    def _confirmed(self, said: Truth, order: Order) -> Reversal:
        """What the acquirer approved of an order without a payment goes by its own word, all else by the terminal's."""
        if isinstance(said, Approved) and order.paid_ms is None:
            return replace(self._reversal, confirmed="approved", amount_minor=said.amount_minor)
        return replace(self._reversal, confirmed="approved" if order.paid_ms is not None else "not_found")

    async def _take_reversal(self, tx: Transaction, order: Order, outcome: Outcome, now_ms: int) -> None:
        if isinstance(outcome, Approved) and self._reversal.confirmed == "not_found":
            await self._end_unfounded(tx, order, now_ms)
        elif isinstance(outcome, Approved):
            if await reversal_store.end(tx, self._reversal, "reversed", now_ms):
                message = "The late approval was given back: the acquirer has confirmed it."
                body = {"reversal_id": self._reversal.reversal_id, "reference_id": outcome.reference_id}
                await tell(tx, order, "late_approval_reversed", message, now_ms, body)
        else:
            if isinstance(outcome, Declined):
                # It may have been undone otherwise: the next attempt asks again what is true.
                await reversal_store.confirm(tx, replace(self._reversal, confirmed=None))
                message = f"The acquirer refused to give the late approval back: {outcome.detail}."
                await self._alert_once(tx, order, now_ms, message)
            await self._again(tx, order, now_ms, shown(outcome))

    async def _end_unfounded(self, tx: Transaction, order: Order, now_ms: int) -> None:
        if await reversal_store.end(tx, self._reversal, "not_found", now_ms):
            message = "The acquirer has no approval beside the order's own payment: nothing is left to be given back."
            body = {"reversal_id": self._reversal.reversal_id, "reference_id": self._reversal.reference_id}
            await tell(tx, order, "late_approval_unfounded", message, now_ms, body)

    async def _again(self, tx: Transaction, order: Order, now_ms: int, why: str, not_found_ms: int = 0) -> None:
        """Try again after the pause, and not later than when what can't be found counts."""
        waited_ms = now_ms - self._reversal.created_ms
        if waited_ms >= self._settings.acquirer_silent_seconds * 1000:
            message = (
                f"The late approval is not given back yet ({why}). It is tried on; ask the acquirer, and where it is"
                f" settled there end it with `paydesk reversals resolve {self._reversal.reversal_id}`."
            )
            await self._alert_once(tx, order, now_ms, message)
        at_ms = next_ms(self._reversal.attempts, now_ms, self._settings.reversal_pause_seconds)
        if waited_ms < not_found_ms:
            at_ms = min(at_ms, self._reversal.created_ms + not_found_ms)
        await reversal_store.postpone(tx, self._reversal, at_ms)

    async def _alert_once(self, tx: Transaction, order: Order, now_ms: int, message: str) -> None:
        if await reversal_store.told(tx, self._reversal, now_ms):
            body = {"reversal_id": self._reversal.reversal_id, "reference_id": self._reversal.reference_id}
            await tell(tx, order, "reversal_needs_person", message, now_ms, body)

    def _log(self, what: str, outcome: Truth) -> None:
        log.info(
            what,
            order=self._order.order_id,
            reversal=self._reversal.reversal_id,
            attempt=self._reversal.attempts,
            outcome=shown(outcome),
        )
