"""The worker of refunds without an outcome: retries each under its own key until the acquirer decides.

It continues what a timeout, a lost response or a crash left. If the request itself is unanswered, its response is
stored as `processing` before the acquirer is asked. Operators are alerted once per refund.
"""

from __future__ import annotations

from paydesk.core.crash_points import reached
from paydesk.engine.orders.change import change_at
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import confirmation_store
from paydesk.engine.payments.acquirer import Declined
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.jobs import AcquirerJob, describe, log
from paydesk.engine.payments.lifecycles import CONFIRMING, REFUNDS, REFUSED
from paydesk.engine.payments.refund import Refund
from paydesk.engine.payments.refunds.attempts import Attempt, complete_request, request_key
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Transaction
from paydesk.platform.worker import WorkerContext


async def process(context: WorkerContext, refund: Refund) -> None:
    """Make one attempt: end the refund, or schedule a retry."""
    order_key, key = conflict_keys.order(refund.order_id), conflict_keys.idempotency(request_key(refund))
    order, is_unpaid = await context.database.write(lambda tx: _begin(tx, refund), conflict_keys=(order_key, key))
    reached("answer_stored")
    attempt = Attempt(refund, order, context.objects[Acquirers].of(order), context.settings)
    outcome = NEVER_CONFIRMED if is_unpaid else await attempt.request()
    reached("asked")
    log.info("refund_answered", refund=refund.refund_id, attempt=refund.attempts, outcome=describe(outcome))
    now_ms = context.clock.now_ms()
    await context.database.write(
        lambda tx: attempt.apply(change_at(tx, now_ms, context.settings), outcome), conflict_keys=(order_key,)
    )
    reached("outcome_committed")


NEVER_CONFIRMED = Declined("processing_error")
"""What follows for a refund that waited for a confirmation, which the acquirer refused: there is nothing to refund."""

# Sent before the confirmation, the acquirer would decline it for good.
UNCONFIRMED = f"""EXISTS (SELECT 1 FROM confirmations c
  WHERE c.seller_id = refunds.seller_id AND c.order_id = refunds.order_id AND c.{CONFIRMING})"""

JOB = AcquirerJob("refund", REFUNDS, Refund, "refund_id", process, excluded=UNCONFIRMED)


async def _begin(tx: Transaction, refund: Refund) -> tuple[Order, bool]:
    """Complete the refund's request; return the order, and whether the acquirer has refused to confirm its payment."""
    order = await complete_request(tx, refund)
    confirmation = await confirmation_store.find(tx, order)
    return order, confirmation is not None and confirmation.status == REFUSED.name
