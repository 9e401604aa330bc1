"""The worker of refunds that have no outcome: asked for again under the same key, until they end.

It takes up what a timeout, a lost answer or a crash left. The request's own answer, where it was never given, is fixed
as `processing` before the acquirer is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from paydesk.acquiring.acquirer import Approved, Declined, NotSent, Outcome
from paydesk.crash_points import reached
from paydesk.late_answers import Key, fix
from paydesk.orders import refund_outcomes, refund_store, store
from paydesk.orders.asking import AskingWorker, Work, log, shown
from paydesk.orders.payments import ASK_SECONDS_MAX, payment_of
from paydesk.orders.refund_store import Refund
from paydesk.orders.shown import refund_answered
from paydesk.orders.store import Order
from paydesk.storage.database import Transaction

if TYPE_CHECKING:
    import asyncio

    from paydesk.workers import WorkerContext

OPERATION = "refund_order"
CLAIM_SECONDS = ASK_SECONDS_MAX + 5
HOUR_MS = 3_600_000


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Bring refunds to their end until told to stop."""
    await AskingWorker(context, WORK).run(stop)


async def bring_on(context: WorkerContext, refund: Refund) -> None:
    """One attempt: the refund ends, or it is asked for again later."""
    touches = (f"order:{refund.order_id}", f"refund:{refund.refund_id}")
    order = await context.database.write(lambda tx: _answered(tx, refund), touches=touches)
    reached("answer_stored")
    acquirer = context.acquirers.of(live=bool(refund.live))
    outcome = await refund_outcomes.ask(acquirer, payment_of(order), refund, ASK_SECONDS_MAX)
    reached("asked")
    log.info("refund", refund=refund.refund_id, attempt=refund.attempts, outcome=shown(outcome))
    now_ms = context.clock.now_ms()
    unsent_ms_max = context.settings.refund_unsent_hours * HOUR_MS
    await context.database.write(lambda tx: _take(tx, refund, outcome, now_ms, unsent_ms_max), touches=touches)
    reached("outcome_committed")


WORK = Work(refund_store.DUE, bring_on, lambda refund: f"refund {refund.refund_id}", CLAIM_SECONDS)


async def _answered(tx: Transaction, refund: Refund) -> Order:
    """Answer the refund's request with `processing` where nobody has; the order."""
    order = await store.find(tx, refund.seller_id, refund.order_id)
    assert order is not None, "a refund has an order"
    key = Key(refund.seller_id, refund.application_id, refund.live, OPERATION, refund.order_id, refund.idempotency_key)
    await fix(tx, key, 201, msgspec.json.encode(refund_answered(order, refund)))
    return order


async def _take(tx: Transaction, refund: Refund, outcome: Outcome, now_ms: int, unsent_ms_max: int) -> None:
    if isinstance(outcome, Approved):
        await refund_outcomes.confirm(tx, refund, outcome, now_ms)
    elif isinstance(outcome, Declined) or _is_given_up(refund, outcome, now_ms, unsent_ms_max):
        await refund_outcomes.fail(tx, refund, now_ms)
    else:
        await refund_outcomes.postpone(tx, refund, outcome, now_ms)


def _is_given_up(refund: Refund, outcome: Outcome, now_ms: int, unsent_ms_max: int) -> bool:
    """Nothing can have happened for so long that the seller should know: it may be asked for anew."""
    never_sent = isinstance(outcome, NotSent) and refund_outcomes.was_never_sent(refund)
    return never_sent and now_ms - refund.created_ms >= unsent_ms_max
