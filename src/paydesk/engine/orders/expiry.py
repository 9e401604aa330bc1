"""Workers of the orders' deadlines: expire orders, mark outcomes as unknown, end unanswered cancel requests.

Orders are kept for ever, but not the buyer's e-mail address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from paydesk.engine.orders import status, store
from paydesk.engine.orders.change import Change, change_at
from paydesk.engine.orders.order import Order
from paydesk.platform.retention import Rule, pruned_by
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Transaction
from paydesk.platform.worker import WorkerContext

if TYPE_CHECKING:
    from paydesk.platform.settings import Settings

BATCH = 500
POLL_INTERVAL_SECONDS = 1.0
CONTENTION_PAUSE_SECONDS = 0.02
"""While an overdue order is locked by another node or a request."""

PAYER_EMAILS_KEEP_DAYS = 120
"""Days after an order's creation that the buyer's e-mail is kept; refunds are possible for 90."""

# The buyers' e-mail addresses of orders created before $2, at most $3. The orders stay.
PRUNE_PAYER_EMAILS = """UPDATE orders SET payer_email = NULL
 WHERE seller_id = $1 AND order_id IN (WITH old AS MATERIALIZED (
    SELECT o.order_id FROM orders o WHERE o.seller_id = $1 AND o.created_ms < $2 AND o.payer_email IS NOT NULL
     ORDER BY o.created_ms LIMIT $3 FOR UPDATE OF o SKIP LOCKED) SELECT * FROM old)"""
RULES = (Rule(lambda _: PAYER_EMAILS_KEEP_DAYS, pruned_by(PRUNE_PAYER_EMAILS)),)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time after which something is done with an order: `sql` finds the due orders, `end` makes the move."""

    sql: str
    end: Callable[[Change, Order], Awaitable[Order | None]]
    after_seconds: Callable[[Settings], int] = lambda _: 0

    async def run(self, context: WorkerContext, stop: asyncio.Event) -> None:
        """Process due orders until `stop` is set."""
        while not stop.is_set():
            with context.database.signals.subscribe("clock", "stop") as waiter:
                if await self.step(context) < BATCH:
                    next_ms = await context.database.read(store.next_expiry_ms)
                    seconds = POLL_INTERVAL_SECONDS
                    if next_ms is not None:
                        seconds = max((next_ms - context.clock.now_ms()) / 1000, CONTENTION_PAUSE_SECONDS)
                    # Other nodes create orders too.
                    await waiter.wait(min(seconds, POLL_INTERVAL_SECONDS))

    async def step(self, context: WorkerContext) -> int:
        """Process up to `BATCH` due orders, except those that another transaction has locked; return their number."""
        now_ms = context.clock.now_ms()

        def work_on(order: Order) -> Awaitable[None]:
            async def work(tx: Transaction) -> None:
                # All nodes find the same orders at the same time, so an order locked by another node is skipped.
                locked = await store.try_lock(tx, order.seller_id, order.order_id)
                if locked is not None:
                    await self.end(change_at(tx, now_ms, context.settings), locked)

            keys = conflict_keys.order(order.order_id), conflict_keys.terminal(order.terminal_id)
            return context.database.write(work, conflict_keys=keys)

        due_ms = now_ms - self.after_seconds(context.settings) * 1000
        due = await context.database.read(lambda tx: store.due(tx, self.sql, due_ms, BATCH))
        await asyncio.gather(*(work_on(order) for order in due))
        return len(due)


async def _check(change: Change, order: Order) -> Order | None:
    moved = await store.move(change, status.CHECK, order, origin="network")
    if moved is not None:
        await store.inquire(change, moved, "no outcome in time")
    return moved


EXPIRY = Deadline(store.OVERDUE, store.expire_overdue)
UNKNOWN_OUTCOME = Deadline(store.AWAITING_OUTCOME, _check, attrgetter("unknown_after_seconds"))
CANCEL_TIMEOUT = Deadline(store.AWAITING_RELEASE, store.confirm_cancel, attrgetter("cancel_silence_seconds"))
