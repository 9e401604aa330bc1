"""The worker of unknown outcomes: the acquirer is asked until the order has its one outcome.

What it can't find for long is undone there before the order fails, under the payment's own key; that this is about to
happen is committed first, so that nothing approves the order meanwhile. An order that ended while the acquirer was
being asked stays as it is: an approval of it is a late one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from paydesk.core.crash_points import reached
from paydesk.orders import status, store
from paydesk.orders.order import Order
from paydesk.payments import inquiry_results, inquiry_store, outcomes, reversal_store
from paydesk.payments.acquirer import Acquirer, Approved, Declined, NotFound, Outcome, Truth
from paydesk.payments.alerts import tell
from paydesk.payments.inquiry_store import Inquiry
from paydesk.payments.jobs import CLAIM_SECONDS, Job, JobWorker, commit, log, shown
from paydesk.payments.outcomes import Paid
from paydesk.payments.requests import answer_of, next_ms, payment_of
from paydesk.storage.database import Transaction

if TYPE_CHECKING:
    import asyncio

    from paydesk.core.worker import WorkerContext
    from paydesk.settings import Settings

R = TypeVar("R")


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Ask for unknown outcomes until told to stop."""
    await JobWorker(context, JOB).run(stop)


async def process(context: WorkerContext, inquiry: Inquiry) -> None:
    """One attempt: what the acquirer says becomes the order's outcome, or it is asked again later."""
    order = await context.database.read(lambda tx: store.find(tx, inquiry.seller_id, inquiry.order_id))
    assert order is not None, "an inquiry has an order"
    steps = _Steps(context, inquiry, order)
    acquirer = context.acquirer(live=bool(inquiry.live))
    if order.paid_ms is not None or (acquirer is None and order.status not in status.LIVE):
        await steps.commit(_has_ended)
    elif acquirer is None:
        await steps.commit(steps.wait_for_operator)
    elif inquiry.reversing_ms is not None or await steps.inquire(acquirer):
        await steps.reverse(acquirer)


JOB = Job(inquiry_store.DUE, process, lambda inquiry: f"inquiry of {inquiry.order_id}", CLAIM_SECONDS)


class _Steps:
    """One attempt of an inquiry, step by step."""

    def __init__(self, context: WorkerContext, inquiry: Inquiry, order: Order) -> None:
        self._context, self._inquiry, self._order = context, inquiry, order
        self._settings: Settings = context.settings

    async def commit(self, change: Callable[[Transaction, Order, int], Awaitable[R]]) -> R:
        """Write down what came of a step, with the order held meanwhile."""
        return await commit(self._context, self._order, change, f"terminal:{self._order.terminal_id}")

    async def inquire(self, acquirer: Acquirer) -> bool:
        """Ask what is true and take it; whether the payment is to be undone."""
        said = await answer_of(acquirer.inquire(payment_of(self._order)))
        reached("inquired")
        self._log("inquiry", said)

        async def take(tx: Transaction, order: Order, now_ms: int) -> bool:
            return await self._take(tx, order, said, now_ms)

        is_reversing = await self.commit(take)
        reached("intent_committed" if is_reversing else "outcome_committed")
        return is_reversing

    async def reverse(self, acquirer: Acquirer) -> None:
        """Undo the payment under its own key, then fail the order."""
        payment = payment_of(self._order)
        outcome = await answer_of(acquirer.reverse(payment, key=payment.payment_id, amount_minor=payment.amount_minor))
        reached("reversal_asked")
        self._log("reversal of what was not found", outcome)

        async def take(tx: Transaction, order: Order, now_ms: int) -> None:
            await self._take_reversal(tx, order, outcome, now_ms)

        await self.commit(take)
        reached("outcome_committed")

    async def wait_for_operator(self, tx: Transaction, order: Order, now_ms: int) -> None:
        """Nobody can be asked: an operator is to end it."""
        await self._alert_once(
            tx,
            order,
            now_ms,
            "No acquirer is configured that could be asked for the outcome: set `acquirer`, or end it with"
            f" `paydesk orders resolve {order.order_id}`.",
        )
        await inquiry_store.postpone(tx, self._inquiry, now_ms + self._settings.inquiry_pause_seconds[-1] * 1000)

    async def _take(self, tx: Transaction, order: Order, said: Truth, now_ms: int) -> bool:
        waited_ms, not_found_ms = now_ms - self._inquiry.created_ms, self._settings.inquiry_not_found_seconds * 1000
        if order.paid_ms is not None:
            await _has_ended(tx, order, now_ms)
            return False
        if await inquiry_store.standing(tx, order) != "asking":
            # It has ended meanwhile, or a later attempt came further: this answer comes too late.
            return False
        match inquiry_results.of_outcome(said, order, waited_ms=waited_ms, not_found_ms=not_found_ms):
            case "approve":
                assert isinstance(said, Approved)
                await _approve(tx, order, said, now_ms)
            case "decline":
                assert isinstance(said, Declined)
                detail = inquiry_results.detail_of(said)
                await outcomes.decline(tx, order, now_ms, by="inquiry", detail=detail, origin="acquirer")
                await inquiry_store.end(tx, order, "declined", now_ms)
            case "reverse":
                if isinstance(said, Approved):
                    await _tell_of_amount(tx, order, said, now_ms)
                return await inquiry_store.begin_reversing(tx, self._inquiry, now_ms)
            case "again":
                known_ms = not_found_ms if isinstance(said, NotFound) else 0
                await self._again(tx, order, now_ms, shown(said), waited_ms, known_ms)
        return False

    async def _take_reversal(self, tx: Transaction, order: Order, outcome: Outcome, now_ms: int) -> None:
        if await inquiry_store.standing(tx, order) == "ended":
            return
        if isinstance(outcome, Approved):
            await outcomes.decline(tx, order, now_ms, by="inquiry", detail="processing_error", origin="network")
            await inquiry_store.end(tx, order, "not_found", now_ms)
            return
        if isinstance(outcome, Declined):
            await inquiry_store.abandon_reversal(tx, self._inquiry)
            await self._alert_once(tx, order, now_ms, f"The acquirer refused to undo the payment: {outcome.detail}.")
        await self._again(tx, order, now_ms, shown(outcome), now_ms - self._inquiry.created_ms)

    async def _again(
        self, tx: Transaction, order: Order, now_ms: int, why: str, waited_ms: int, not_found_ms: int = 0
    ) -> None:
        """Ask again after the pause, and not later than when what can't be found counts."""
        if waited_ms >= self._settings.acquirer_silent_seconds * 1000:
            await self._alert_once(
                tx,
                order,
                now_ms,
                f"The acquirer has not said for long what became of the payment ({why}). It is asked on; an operator"
                f" may end it with `paydesk orders resolve {order.order_id}`.",
            )
        at_ms = next_ms(self._inquiry.attempts, now_ms, self._settings.inquiry_pause_seconds)
        if waited_ms < not_found_ms:
            at_ms = min(at_ms, self._inquiry.created_ms + not_found_ms)
        await inquiry_store.postpone(tx, self._inquiry, at_ms)

    async def _alert_once(self, tx: Transaction, order: Order, now_ms: int, message: str) -> None:
        if await inquiry_store.told(tx, self._inquiry, now_ms):
            await tell(tx, order, "inquiry_needs_person", message, now_ms, {"reason": self._inquiry.reason})

    def _log(self, what: str, outcome: Truth) -> None:
        log.info(what, order=self._order.order_id, attempt=self._inquiry.attempts, outcome=shown(outcome))


async def _approve(tx: Transaction, order: Order, said: Approved, now_ms: int) -> None:
    """Processed with what the acquirer says; where the order has ended otherwise meanwhile, a late approval."""
    await inquiry_store.end(tx, order, "approved", now_ms)
    if await outcomes.approve(tx, order, now_ms, _paid(said), by="inquiry") is None:
        await give_back(tx, order, said, now_ms)


async def give_back(tx: Transaction, order: Order, said: Approved, now_ms: int) -> None:
    """The acquirer approved what ended without a payment: a late approval, which no terminal told of."""
    assert order.status in status.FINAL, "what is live can be approved"
    begun = await reversal_store.begin(
        tx,
        order,
        now_ms,
        result_id=reversal_store.BY_INQUIRY,
        amount_minor=said.amount_minor,
        reference_id=said.reference_id,
    )
    if begun:
        message = "The acquirer approved it, and the order had ended: the approval is being given back."
        await tell(tx, order, "late_approval", message, now_ms, {"reference_id": said.reference_id})


async def _has_ended(tx: Transaction, order: Order, now_ms: int) -> None:
    """Its terminal, or an operator, was first: nobody is asked any more."""
    await inquiry_store.end(tx, order, "result", now_ms)


async def _tell_of_amount(tx: Transaction, order: Order, said: Approved, now_ms: int) -> None:
    message = "The acquirer approved another amount than the order's: it is undone, and the order fails."
    body = {"approved_minor": said.amount_minor, "amount_minor": order.amount_minor, "reference_id": said.reference_id}
    await tell(tx, order, "approval_of_another_amount", message, now_ms, body)


def _paid(said: Approved) -> Paid:
    card = said.card
    if card is None:
        return Paid(said.reference_id, said.authorization_code)
    return Paid(
        said.reference_id,
        said.authorization_code,
        {"id": card.brand, "type": card.type, "installments": said.installments},
        outcomes.digits_of(card),
    )
