"""One attempt to refund, by the request or by a worker: the call at the acquirer, and what follows.

A call outlives the request that started it. The worker continues what a timeout, a lost response or a crash left. If
the request itself is unanswered, its response is stored as `processing` before the acquirer is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from paydesk.core.crash_points import reached
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change, change_at
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import confirmation_store
from paydesk.engine.payments.acquirer import Approved, Declined, NotSent, Outcome, Unknown
from paydesk.engine.payments.acquirers import Acquirers, CheckedAcquirer
from paydesk.engine.payments.jobs import NEVER_MS, AcquirerJob, describe, log, next_attempt_ms
from paydesk.engine.payments.lifecycles import CONFIRMING, REFUNDS, REFUSED
from paydesk.engine.payments.outcomes import alert, alert_differing
from paydesk.engine.payments.refund import Refund, refund_response
from paydesk.engine.payments.refunds import store
from paydesk.engine.payments.terms import payment_of
from paydesk.platform.idempotency import complete
from paydesk.platform.idempotency_key import Key
from paydesk.platform.jobs import Removed
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Locked, Transaction, Unavailable
from paydesk.platform.worker import WorkerContext

if TYPE_CHECKING:
    from paydesk.platform.settings import Settings

HOUR_MS = 3_600_000
PAUSES_SECONDS = (0, 10, 30, 60, 120, 300, 600)
"""The pause after the first attempt, the second, …; the last pause repeats."""
NEVER_CONFIRMED = Declined("processing_error")
"""The outcome of a refund whose payment the acquirer refused to confirm: there is nothing to refund."""
OPERATION, OPERATOR_OPERATION = "refund_order", "operator_refund_order"
"""The operation whose idempotency key a refund has: an application's, or an operator's, whose refund has none."""

# Sent before the confirmation, the acquirer would decline it for good.
UNCONFIRMED = f"""EXISTS (SELECT 1 FROM confirmations c
  WHERE c.seller_id = refunds.seller_id AND c.order_id = refunds.order_id AND c.{CONFIRMING})"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a refund of the order, at its acquirer; None if none is configured."""

    refund: Refund
    order: Order
    acquirer: CheckedAcquirer | None
    settings: Settings

    @property
    def refund_facts(self) -> dict[str, Any]:
        """The refund in the log, with its order."""
        return {"refund": self.refund.refund_id, **self.order.order_facts}

    async def request(self) -> Outcome:
        """Request the refund under its own key, unless that could refund twice."""
        refund, acquirer = self.refund, self.acquirer
        if acquirer is None:
            return NotSent("no acquirer is configured")
        if not (self._is_idempotent() or refund.was_never_sent):
            return Unknown("an earlier attempt had no answer")
        # The order may have got its reference since, but each attempt under the key has the same body.
        reference_id = refund.payment_reference_id
        return await acquirer.refund(
            payment_of(self.order),
            key=refund.refund_id,
            amount_minor=refund.amount_minor,
            reference_id=self.order.reference_id or "" if reference_id is None else reference_id,
        )

    async def apply(self, change: Change, outcome: Outcome) -> None:
        """End the refund, or schedule a retry. One that was never sent fails: the seller may request it anew."""
        refund, waited_ms = self.refund, change.now_ms - self.refund.created_ms
        is_abandoned = self._was_never_sent(outcome) and waited_ms >= self.settings.refund_unsent_hours * HOUR_MS
        if isinstance(outcome, Approved):
            await store.confirm(change, refund, outcome)
        elif isinstance(outcome, Declined) or is_abandoned:
            await store.fail(change, refund)
        else:
            await self.postpone(change, outcome)

    async def postpone(self, change: Change, outcome: Unknown | NotSent) -> None:
        """Schedule the next attempt, or none where it could refund twice; alert operators if a person is needed."""
        refund, waited_ms = self.refund, change.now_ms - self.refund.created_ms
        is_last = isinstance(outcome, Unknown) and not self._is_idempotent()
        is_silent = self.acquirer is None or waited_ms >= self.settings.acquirer_silent_seconds * 1000
        if isinstance(outcome, Unknown) and outcome.differs:
            await alert_differing(change, self.order, outcome, {"refund_id": refund.refund_id})
        if (is_silent or is_last) and await JOB.mark_alerted(change, refund):
            body = {"refund_id": refund.refund_id, "amount": refund.amount, "payment_id": refund.payment_id}
            await alert(change, self.order, "refund_needs_person", self._message(outcome, is_last=is_last), body)
        next_ms = NEVER_MS if is_last else next_attempt_ms(refund.attempts, change.now_ms, PAUSES_SECONDS)
        if isinstance(outcome, NotSent):
            await store.count_unsent(change.tx, refund)
        await JOB.postpone(change.tx, refund, next_ms)
        change.tx.notify("money")

    def _is_idempotent(self) -> bool:
        return self.acquirer is None or "refund" in self.acquirer.capabilities.idempotent

    def _was_never_sent(self, outcome: Outcome) -> bool:
        return isinstance(outcome, NotSent) and self.refund.was_never_sent

    def _message(self, outcome: Outcome, *, is_last: bool) -> str:
        command = f"`paydesk refunds resolve {self.refund.refund_id}`"
        if is_last:
            return (
                f"The refund has no answer ({describe(outcome)}), and the acquirer would make it again if it were"
                f" repeated. Check with the acquirer, then run {command}."
            )
        what = "No acquirer is configured for the refund. Set `acquirer`. Attempts continue."
        if self.acquirer is not None:
            what = f"The refund has no outcome yet ({describe(outcome)}). Attempts continue. Check with the acquirer."
        if self._was_never_sent(outcome):
            hours = self.settings.refund_unsent_hours
            return f"{what} It was never sent; if that remains so, it fails {hours} hours after it was requested."
        return (
            f"{what} It may have taken effect, and its amount stays reserved until the acquirer answers to the key"
            f" {self.refund.refund_id}, or you run {command}."
        )


async def process(context: WorkerContext, job: AcquirerJob[Refund], refund: Refund) -> None:
    """Make one attempt by a worker: end the refund, or schedule a retry."""
    del job
    order_key, key = conflict_keys.order(refund.order_id), conflict_keys.idempotency(request_key(refund))
    order, is_unpaid = await context.database.write(lambda tx: _begin(tx, refund), conflict_keys=(order_key, key))
    reached("answer_stored")
    attempt = Attempt(refund, order, context.objects[Acquirers].of(order), context.settings)
    outcome = NEVER_CONFIRMED if is_unpaid else await attempt.request()
    reached("asked")
    log.info("refund_answered", **attempt.refund_facts, attempt=refund.attempts, outcome=describe(outcome))
    now_ms = context.clock.now_ms()
    await context.database.write(
        lambda tx: attempt.apply(change_at(tx, now_ms, context.settings), outcome), conflict_keys=(order_key,)
    )
    reached("outcome_committed")


JOB = AcquirerJob("refund", REFUNDS, Refund, "refund_id", process, excluded=UNCONFIRMED)


async def _begin(tx: Transaction, refund: Refund) -> tuple[Order, bool]:
    """Complete the refund's request; return the order, and whether the acquirer has refused to confirm its payment."""
    order = await complete_request(tx, refund)
    confirmation = await confirmation_store.find(tx, order)
    return order, confirmation is not None and confirmation.status == REFUSED.name


def request_key(refund: Refund) -> Key:
    """Return the idempotency key of the refund's request."""
    operation = OPERATION if refund.application_id else OPERATOR_OPERATION
    return Key(refund.seller_id, refund.application_id, refund.live, operation, refund.order_id, refund.idempotency_key)


async def complete_request(tx: Transaction, refund: Refund) -> Order:
    """Store `processing` under the key of the refund's request if it has no response; return the order."""
    order = await orders.find(tx, refund.seller_id, refund.order_id)
    if order is None:
        raise Removed(refund.order_id)
    await complete(tx, request_key(refund), 201, msgspec.json.encode(refund_response(order, refund)))
    return order


class RefundCalls:
    """The refunds that this node is requesting. A call goes on when the request that started it is answered."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    async def outcome(
        self, attempt: Attempt, seconds_max: float, apply_late: Callable[[Outcome], Awaitable[None]]
    ) -> Outcome | None:
        """Return the outcome; None without one in time: then `apply_late` gets it when it comes."""
        request = asyncio.ensure_future(attempt.request())
        await asyncio.wait((request,), timeout=seconds_max)
        if request.done():
            return request.result()

        async def apply() -> None:
            try:
                await apply_late(await request)
            except (Unavailable, Locked, Removed) as error:
                log.warning("refund_outcome_not_committed", **attempt.refund_facts, reason=str(error))

        task = asyncio.create_task(apply(), name="late answer to a refund")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return None
