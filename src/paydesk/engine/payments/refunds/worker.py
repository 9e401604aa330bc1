"""The worker of refunds without an outcome: retries each under its own key until the acquirer decides.

It continues what a timeout, a lost response or a crash left. If the request itself is unanswered, its response is
stored as `processing` before the acquirer is asked. Operators are alerted once per refund.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from paydesk.core.crash_points import reached
from paydesk.engine.orders import store
from paydesk.engine.orders.change import Change, change_at
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.acquirer import (
    RESPONSE_SECONDS_MAX,
    Acquirers,
    Approved,
    Declined,
    NotSent,
    Outcome,
    payment_of,
)
from paydesk.engine.payments.jobs import AcquirerJob, describe, log
from paydesk.engine.payments.lifecycles import REFUNDS
from paydesk.engine.payments.outcomes import alert
from paydesk.engine.payments.refund import Refund, refund_response
from paydesk.engine.payments.refunds import store as refund_store
from paydesk.engine.payments.refunds.handlers import request_refund
from paydesk.platform.idempotency import complete
from paydesk.platform.idempotency_key import Key
from paydesk.platform.jobs import Removed
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Transaction
from paydesk.platform.worker import WorkerContext

if TYPE_CHECKING:
    from paydesk.platform.settings import Settings

OPERATION, OPERATOR_OPERATION = "refund_order", "operator_refund_order"
"""The operation whose idempotency key a refund has: an application's, or an operator's, whose refund has none."""
LEASE_SECONDS = RESPONSE_SECONDS_MAX + 5
HOUR_MS = 3_600_000


async def process(context: WorkerContext, refund: Refund) -> None:
    """Make one attempt: end the refund, or schedule a retry."""
    operation = OPERATION if refund.application_id else OPERATOR_OPERATION
    key = Key(refund.seller_id, refund.application_id, refund.live, operation, refund.order_id, refund.idempotency_key)
    order_key = conflict_keys.order(refund.order_id)
    order = await context.database.write(
        lambda tx: _complete_request(tx, refund, key), conflict_keys=(order_key, conflict_keys.idempotency(key))
    )
    reached("answer_stored")
    acquirer = context.objects[Acquirers].of(bool(refund.live))
    outcome = await request_refund(acquirer, payment_of(order), refund, RESPONSE_SECONDS_MAX)
    reached("asked")
    log.info("refund_answered", refund=refund.refund_id, attempt=refund.attempts, outcome=describe(outcome))
    attempt, now_ms = _Attempt(refund, order, outcome, context.settings, acquirer is not None), context.clock.now_ms()
    await context.database.write(
        lambda tx: attempt.apply(change_at(tx, now_ms, context.settings)), conflict_keys=(order_key,)
    )
    reached("outcome_committed")


JOB = AcquirerJob("refund", REFUNDS, Refund, "refund_id", process, lease_seconds=LEASE_SECONDS)


async def _complete_request(tx: Transaction, refund: Refund, key: Key) -> Order:
    """Store `processing` under the key of the refund's request if it has no response; return the order."""
    order = await store.find(tx, refund.seller_id, refund.order_id)
    if order is None:
        raise Removed(refund.order_id)
    await complete(tx, key, 201, msgspec.json.encode(refund_response(order, refund)))
    return order


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An attempt and its outcome."""

    refund: Refund
    order: Order
    outcome: Outcome
    settings: Settings
    has_acquirer: bool

    async def apply(self, change: Change) -> None:
        """End the refund, or schedule a retry. One that was never sent fails: the seller may request it anew."""
        refund, outcome, waited_ms = self.refund, self.outcome, change.now_ms - self.refund.created_ms
        is_abandoned = self._was_never_sent() and waited_ms >= self.settings.refund_unsent_hours * HOUR_MS
        if isinstance(outcome, Approved):
            await refund_store.confirm(change, refund, outcome)
        elif isinstance(outcome, Declined) or is_abandoned:
            await refund_store.fail(change, refund)
        else:
            is_silent = not self.has_acquirer or waited_ms >= self.settings.acquirer_silent_seconds * 1000
            if is_silent and await JOB.mark_alerted(change, refund):
                body = {"refund_id": refund.refund_id, "amount": refund.amount, "payment_id": refund.payment_id}
                await alert(change, self.order, "refund_needs_person", self._message(), body)
            await refund_store.postpone(change, refund, outcome)

    def _was_never_sent(self) -> bool:
        return isinstance(self.outcome, NotSent) and self.refund.was_never_sent

    def _message(self) -> str:
        if self.has_acquirer:
            what = (
                f"The refund has no outcome yet ({describe(self.outcome)}). Attempts continue. Check with the acquirer."
            )
        else:
            what = "No acquirer is configured for the refund. Set `acquirer`. Attempts continue."
        if self._was_never_sent():
            hours = self.settings.refund_unsent_hours
            return f"{what} It was never sent; if that remains so, it fails {hours} hours after it was requested."
        return (
            f"{what} It may have taken effect. It ends only with the acquirer's answer to the key"
            f" {self.refund.refund_id}, and its amount stays reserved until then."
        )
