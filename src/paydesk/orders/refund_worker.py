"""The worker of refunds that have no outcome: claimed, asked for again under the same key, ended.

It takes up what a timeout, a lost answer or a crash left. The request's own answer, where it was never given, is fixed
as `processing` before the acquirer is asked. A crash of the worker leaves a claim that runs out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import structlog

from paydesk.acquiring.acquirer import Approved, Declined, NotSent, Outcome
from paydesk.clock import Clock, SystemClock
from paydesk.crash_points import reached
from paydesk.late_answers import Key, fix
from paydesk.orders import refund_outcomes, refund_store, store
from paydesk.orders.refund_store import Refund
from paydesk.orders.schemas import refund_answered
from paydesk.orders.store import Order
from paydesk.storage.database import Locked, Transaction, Unavailable

if TYPE_CHECKING:
    from paydesk.workers import WorkerContext

OPERATION = "refund_order"
ASK_SECONDS_MAX = 30
CLAIM_MARGIN_SECONDS = 5
UNDER_WAY_MAX = 16
LOOK_AGAIN_SECONDS = 1.0
STOP_SECONDS_MAX = 3.0
HOUR_MS = 3_600_000

log = structlog.get_logger("refunds")


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Bring refunds to their end until told to stop."""
    await RefundWorker(context).run(stop)


class RefundWorker:
    """Asks for what is due, many at once: no refund waits for another's slow answer."""

    def __init__(self, context: WorkerContext, *, wall: Clock | None = None) -> None:
        self._context, self._database = context, context.database
        self._wall = wall or SystemClock()
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Ask until `stop` is set; what is under way then has a few seconds, and is asked for again otherwise."""
        try:
            while not stop.is_set():
                with self._database.signals.subscribe("money", "clock", "stop") as waiter:
                    await self.start_due()
                    if not stop.is_set():
                        await waiter.wait(await self._pause_seconds())
        finally:
            if self._under_way:
                await asyncio.wait(self._under_way, timeout=STOP_SECONDS_MAX)
            for task in self._under_way:
                task.cancel()

    async def start_due(self) -> int:
        """Claim what is due and begin to ask for it; how many."""
        now_ms, wall_ms = self._context.clock.now_ms(), self._wall.now_ms()
        started = 0
        for seller_id in await self._database.read(lambda tx: refund_store.sellers_due(tx, now_ms, wall_ms)):
            free = UNDER_WAY_MAX - len(self._under_way)
            if free:
                started += await self._claim(seller_id, free)
        return started

    async def settle(self) -> None:
        """Wait until nothing is under way."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def _claim(self, seller_id: int, limit: int) -> int:
        now_ms, wall_ms = self._context.clock.now_ms(), self._wall.now_ms()
        until_ms = wall_ms + (ASK_SECONDS_MAX + CLAIM_MARGIN_SECONDS) * 1000

        async def work(tx: Transaction) -> list[Refund]:
            return await refund_store.claim(
                tx, seller_id, now_ms=now_ms, wall_ms=wall_ms, until_ms=until_ms, limit=limit
            )

        claimed = await self._database.write(work)
        reached("claimed")
        for refund in claimed:
            task = asyncio.create_task(self._bring_to_its_end(refund), name=f"refund {refund.refund_id}")
            self._under_way.add(task)
            task.add_done_callback(self._done)
        return len(claimed)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        error = None if task.cancelled() else task.exception()
        # Whatever it is, the claim runs out, and it is asked for again.
        if isinstance(error, Unavailable | Locked):
            log.warning("refund without an end", task=task.get_name(), reason=str(error))
        elif error is not None:
            log.error("refund without an end", task=task.get_name(), exc_info=error)
        self._database.signals.wake_here(["money"])

    async def _bring_to_its_end(self, refund: Refund) -> None:
        order = await self._database.write(lambda tx: _answered(tx, refund), touches=_touches(refund))
        reached("answer_stored")
        acquirer = self._context.acquirers.of(live=bool(refund.live))
        outcome = await refund_outcomes.ask(acquirer, refund_outcomes.payment_of(order), refund, ASK_SECONDS_MAX)
        reached("asked")
        log.info("refund asked for", refund=refund.refund_id, attempt=refund.attempts, outcome=repr(outcome))
        now_ms = self._context.clock.now_ms()
        await self._database.write(lambda tx: self._end(tx, refund, outcome, now_ms), touches=_touches(refund))
        reached("outcome_committed")

    async def _end(self, tx: Transaction, refund: Refund, outcome: Outcome, now_ms: int) -> None:
        if isinstance(outcome, Approved):
            await refund_outcomes.confirm(tx, refund, outcome, now_ms)
        elif isinstance(outcome, Declined) or self._is_given_up(refund, outcome, now_ms):
            await refund_outcomes.fail(tx, refund, now_ms)
        else:
            await refund_outcomes.postpone(tx, refund, outcome, now_ms)

    def _is_given_up(self, refund: Refund, outcome: Outcome, now_ms: int) -> bool:
        """Nothing can have happened for so long that the seller should know: it may be asked for anew."""
        waited_ms = self._context.settings.refund_unsent_hours * HOUR_MS
        never_sent = isinstance(outcome, NotSent) and refund_outcomes.was_never_sent(refund)
        return never_sent and now_ms - refund.created_ms >= waited_ms

    async def _pause_seconds(self) -> float:
        """Seconds until the next refund is due, at most one: other nodes write too."""
        now_ms = self._context.clock.now_ms()
        next_ms = await self._database.read(lambda tx: refund_store.next_due_ms(tx, now_ms))
        return LOOK_AGAIN_SECONDS if next_ms is None else min((next_ms - now_ms) / 1000, LOOK_AGAIN_SECONDS)


async def _answered(tx: Transaction, refund: Refund) -> Order:
    """Answer the refund's request with `processing` where nobody has; the order."""
    order = await store.find(tx, refund.seller_id, refund.order_id)
    assert order is not None, "a refund has an order"
    key = Key(refund.seller_id, refund.application_id, refund.live, OPERATION, refund.order_id, refund.idempotency_key)
    await fix(tx, key, 201, msgspec.json.encode(refund_answered(order, refund)))
    return order


def _touches(refund: Refund) -> tuple[str, ...]:
    return (f"order:{refund.order_id}", f"refund:{refund.refund_id}")
