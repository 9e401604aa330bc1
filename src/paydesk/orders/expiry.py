"""Workers of the orders' deadlines: expire orders, mark outcomes as unknown, end unanswered cancel requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from paydesk.core import conflict_keys
from paydesk.orders import status, store
from paydesk.orders.change import Change, change_at
from paydesk.orders.order import Order
from paydesk.storage.database import Transaction

if TYPE_CHECKING:
    from paydesk.core.worker import WorkerContext

BATCH = 500
POLL_INTERVAL_SECONDS = 1.0
CONTENTION_PAUSE_SECONDS = 0.02
"""While an overdue order is locked by another node or a request."""
Step = Callable[["WorkerContext"], Awaitable[int]]
Find = Callable[[Transaction, int, int], Awaitable[list[Order]]]
End = Callable[[Change, Order], Awaitable[Order | None]]


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Expire overdue orders until `stop` is set."""
    await _repeat(expire_step, context, stop)


async def run_unknown(context: WorkerContext, stop: asyncio.Event) -> None:
    """Move orders without an outcome to `check_on_terminal` until `stop` is set."""
    await _repeat(unknown_step, context, stop)


async def run_cancel_timeout(context: WorkerContext, stop: asyncio.Event) -> None:
    """Cancel orders whose terminal does not answer a cancel request, until `stop` is set."""
    await _repeat(cancel_timeout_step, context, stop)


async def expire_step(context: WorkerContext) -> int:
    """Expire overdue orders; return how many were due."""
    return await _each(context, store.overdue, store.expire_overdue, after_seconds=0)


async def unknown_step(context: WorkerContext) -> int:
    """Inquire about orders permitted `unknown_after_seconds` ago without an outcome; return how many were due."""
    return await _each(context, store.awaiting_outcome, _check, after_seconds=context.settings.unknown_after_seconds)


async def cancel_timeout_step(context: WorkerContext) -> int:
    """Cancel orders not released `cancel_silence_seconds` after the cancel request; return how many were due."""
    return await _each(
        context, store.awaiting_release, store.confirm_cancel, after_seconds=context.settings.cancel_silence_seconds
    )


async def _check(change: Change, order: Order) -> Order | None:
    moved = await store.move(change, status.CHECK, order, origin="network")
    if moved is not None:
        await store.inquire(change, moved, "no outcome in time")
    return moved


async def _each(context: WorkerContext, find: Find, end: End, *, after_seconds: int) -> int:
    """Run `end` on up to `BATCH` due orders, except those that another transaction has locked."""
    now_ms = context.clock.now_ms()

    def work_on(order: Order) -> Awaitable[None]:
        async def work(tx: Transaction) -> None:
            # All nodes find the same orders at the same time, so an order locked by another node is skipped.
            locked = await store.try_lock(tx, order.seller_id, order.order_id)
            if locked is not None:
                await end(change_at(tx, now_ms, context.settings), locked)

        keys = conflict_keys.order(order.order_id), conflict_keys.terminal(order.terminal_id)
        return context.database.write(work, conflict_keys=keys)

    due = await context.database.read(lambda tx: find(tx, now_ms - after_seconds * 1000, BATCH))
    await asyncio.gather(*(work_on(order) for order in due))
    return len(due)


async def _repeat(step: Step, context: WorkerContext, stop: asyncio.Event) -> None:
    while not stop.is_set():
        with context.database.signals.subscribe("clock", "stop") as waiter:
            if await step(context) < BATCH:
                await waiter.wait(await _pause(context))


async def _pause(context: WorkerContext) -> float:
    """Return the seconds until the next order expires, at most a second: other nodes create orders too."""
    next_ms = await context.database.read(store.next_expiry_ms)
    if next_ms is None:
        return POLL_INTERVAL_SECONDS
    return min(max((next_ms - context.clock.now_ms()) / 1000, CONTENTION_PAUSE_SECONDS), POLL_INTERVAL_SECONDS)
