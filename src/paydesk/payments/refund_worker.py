"""The worker of refunds that have no outcome: asked for again under the same key, until they end.

It takes up what a timeout, a lost answer or a crash left. The request's own answer, where it was never given, is fixed
as `processing` before the acquirer is asked. Of one that stays without an outcome operators are told, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from paydesk.core.crash_points import reached
from paydesk.core.idempotency import Key, complete
from paydesk.orders import store
from paydesk.orders.order import Order
from paydesk.orders.presentation import refund_answered
from paydesk.payments import refund_outcomes, refund_store
from paydesk.payments.acquirer import Approved, Declined, NotSent, Outcome
from paydesk.payments.alerts import tell
from paydesk.payments.jobs import Job, JobWorker, log, shown
from paydesk.payments.refund import Refund
from paydesk.payments.requests import ASK_SECONDS_MAX, payment_of
from paydesk.storage.database import Transaction

if TYPE_CHECKING:
    import asyncio

    from paydesk.core.worker import WorkerContext
    from paydesk.settings import Settings

OPERATION = "refund_order"
CLAIM_SECONDS = ASK_SECONDS_MAX + 5
HOUR_MS = 3_600_000


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Bring refunds to their end until told to stop."""
    await JobWorker(context, JOB).run(stop)


async def process(context: WorkerContext, refund: Refund) -> None:
    """One attempt: the refund ends, or it is asked for again later."""
    conflict_keys = (f"order:{refund.order_id}", f"refund:{refund.refund_id}")
    order = await context.database.write(lambda tx: _answered(tx, refund), conflict_keys=conflict_keys)
    reached("answer_stored")
    acquirer = context.acquirer(live=bool(refund.live))
    outcome = await refund_outcomes.ask(acquirer, payment_of(order), refund, ASK_SECONDS_MAX)
    reached("asked")
    log.info("refund", refund=refund.refund_id, attempt=refund.attempts, outcome=shown(outcome))
    now_ms, can_ask = context.clock.now_ms(), acquirer is not None
    asked = _Asked(refund, order, outcome, now_ms, context.settings, can_ask=can_ask)
    await context.database.write(asked.take, conflict_keys=conflict_keys)
    reached("outcome_committed")


JOB = Job(refund_store.DUE, process, lambda refund: f"refund {refund.refund_id}", CLAIM_SECONDS)


async def _answered(tx: Transaction, refund: Refund) -> Order:
    """Answer the refund's request with `processing` where nobody has; the order."""
    order = await store.find(tx, refund.seller_id, refund.order_id)
    assert order is not None, "a refund has an order"
    key = Key(refund.seller_id, refund.application_id, refund.live, OPERATION, refund.order_id, refund.idempotency_key)
    await complete(tx, key, 201, msgspec.json.encode(refund_answered(order, refund)))
    return order


@dataclass(frozen=True, slots=True)
class _Asked:
    """An attempt that was made, and what comes of it. `can_ask`: there is an acquirer that could be asked."""

    refund: Refund
    order: Order
    outcome: Outcome
    now_ms: int
    settings: Settings
    can_ask: bool

    async def take(self, tx: Transaction) -> None:
        """The refund ends, or it is asked for again later."""
        outcome = self.outcome
        if isinstance(outcome, Approved):
            await refund_outcomes.confirm(tx, self.refund, outcome, self.now_ms)
        elif isinstance(outcome, Declined) or self._is_given_up():
            await refund_outcomes.fail(tx, self.refund, self.now_ms)
        else:
            if not self.can_ask or self._waited_ms() >= self.settings.acquirer_silent_seconds * 1000:
                await self._alert_once(tx)
            await refund_outcomes.postpone(tx, self.refund, outcome, self.now_ms)

    def _waited_ms(self) -> int:
        return self.now_ms - self.refund.created_ms

    def _never_left(self) -> bool:
        return isinstance(self.outcome, NotSent) and refund_outcomes.was_never_sent(self.refund)

    def _is_given_up(self) -> bool:
        """Nothing can have happened for so long that the seller should know: it may be asked for anew."""
        return self._never_left() and self._waited_ms() >= self.settings.refund_unsent_hours * HOUR_MS

    async def _alert_once(self, tx: Transaction) -> None:
        refund = self.refund
        if await refund_store.told(tx, refund, self.now_ms):
            body = {"refund_id": refund.refund_id, "amount": refund.amount, "payment_id": refund.payment_id}
            await tell(tx, self.order, "refund_needs_person", self._message(), self.now_ms, body)

    def _message(self) -> str:
        """What happened, why, and what can be done: nothing but the acquirer ends what may have reached it."""
        if self.can_ask:
            what = f"The refund has no outcome yet ({shown(self.outcome)}). It is asked for on; ask the acquirer."
        else:
            what = "No acquirer is configured that could give the money back: set `acquirer`. It is asked for on."
        if self._never_left():
            hours = self.settings.refund_unsent_hours
            return f"{what} It has never left; where that stays so it fails {hours} hours after it was begun."
        return (
            f"{what} It may have happened there: only the acquirer's answer to the key {self.refund.refund_id} ends it,"
            " and its amount stays reserved until then."
        )
