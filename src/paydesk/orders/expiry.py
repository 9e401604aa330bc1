"""Workers that wait for what does not come: time that runs out, an outcome, a terminal's answer to a cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from paydesk.orders import status, store
from paydesk.orders.order import Order
from paydesk.storage.database import Transaction

if TYPE_CHECKING:
    from paydesk.core.worker import WorkerContext

BATCH = 500
POLL_INTERVAL_SECONDS = 1.0
RIVAL_SECONDS = 0.02
"""What is overdue and yet there is being ended by another node, or held by a request."""
Step = Callable[["WorkerContext"], Awaitable[int]]
Find = Callable[[Transaction, int, int], Awaitable[list[Order]]]
End = Callable[[Transaction, Order, int], Awaitable[None]]


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Expire overdue orders until told to stop."""
    await _repeat(expire_step, context, stop)


async def run_unknown(context: WorkerContext, stop: asyncio.Event) -> None:
    """Move orders without an outcome to `check_on_terminal` until told to stop."""
    await _repeat(unknown_step, context, stop)


async def run_silent(context: WorkerContext, stop: asyncio.Event) -> None:
    """Cancel orders that were asked for and not given back until told to stop."""
    await _repeat(silent_step, context, stop)


async def expire_step(context: WorkerContext) -> int:
    """Expire overdue orders; how many were due."""
    return await _each(context, store.overdue, _expire, waited_seconds=0)


async def unknown_step(context: WorkerContext) -> int:
    """Look into orders granted long ago whose outcome is still to come; how many were due."""
    return await _each(context, store.silent, _check, waited_seconds=context.settings.unknown_after_seconds)


async def silent_step(context: WorkerContext) -> int:
    """Take orders back whose terminal was asked for them and is silent; how many were due."""
    return await _each(context, store.not_released, _take_back, waited_seconds=context.settings.cancel_silence_seconds)


async def _expire(tx: Transaction, order: Order, now_ms: int) -> None:
    await store.expire_overdue(tx, order, now_ms)


async def _check(tx: Transaction, order: Order, now_ms: int) -> None:
    moved = await store.move(tx, status.CHECK, order, now_ms, origin="network")
    if moved is not None:
        await store.inquire(tx, moved, "no outcome in time", now_ms)


async def _take_back(tx: Transaction, order: Order, now_ms: int) -> None:
    canceled = await store.move(tx, status.CONFIRM_CANCEL, order, now_ms)
    if canceled is not None:
        await store.end_lease(tx, canceled, "cancel", now_ms)


async def _each(context: WorkerContext, find: Find, end: End, *, waited_seconds: int) -> int:
    """Run `end` on up to `BATCH` orders that have waited long enough, but for those that somebody else is at."""
    now_ms = context.clock.now_ms()

    def work_on(order: Order) -> Awaitable[None]:
        async def work(tx: Transaction) -> None:
            # All nodes find the same orders at the same moment: what a rival holds is the rival's.
            held = await store.try_lock(tx, order.seller_id, order.order_id)
            if held is not None:
                await end(tx, held, now_ms)

        conflict_keys = f"order:{order.order_id}", f"terminal:{order.terminal_id}"
        return context.database.write(work, conflict_keys=conflict_keys)

    due = await context.database.read(lambda tx: find(tx, now_ms - waited_seconds * 1000, BATCH))
    await asyncio.gather(*(work_on(order) for order in due))
    return len(due)


async def _repeat(step: Step, context: WorkerContext, stop: asyncio.Event) -> None:
    while not stop.is_set():
        with context.database.signals.subscribe("clock", "stop") as waiter:
            if await step(context) < BATCH:
                await waiter.wait(await _pause(context))


async def _pause(context: WorkerContext) -> float:
    """Seconds until the next order runs out of time, at most a second: other nodes make orders too."""
    next_ms = await context.database.read(store.next_expiry_ms)
    if next_ms is None:
        return POLL_INTERVAL_SECONDS
    return min(max((next_ms - context.clock.now_ms()) / 1000, RIVAL_SECONDS), POLL_INTERVAL_SECONDS)
