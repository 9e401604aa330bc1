"""Two workers: orders whose time ran out expire to the second, orders whose outcome nobody knows are looked into."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from paydesk.orders import status, store
from paydesk.storage.database import Transaction

if TYPE_CHECKING:
    from paydesk.workers import WorkerContext

BATCH = 500
LOOK_AGAIN_SECONDS = 1.0
Step = Callable[["WorkerContext"], Awaitable[int]]


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Expire overdue orders until told to stop."""
    await _repeat(expire_step, context, stop)


async def run_unknown(context: WorkerContext, stop: asyncio.Event) -> None:
    """Move orders without an outcome to `check_on_terminal` until told to stop."""
    await _repeat(unknown_step, context, stop)


async def expire_step(context: WorkerContext) -> int:
    """Expire up to `BATCH` overdue orders, each in a unit of work of its own; how many."""
    now_ms = context.clock.now_ms()

    async def find(tx: Transaction) -> list[store.Order]:
        return await store.overdue(tx, now_ms, BATCH)

    def expire(order: store.Order) -> Awaitable[store.Order]:
        async def work(tx: Transaction) -> store.Order:
            return await store.expire_overdue(tx, order, now_ms)

        return context.database.write(work)

    due = await context.database.read(find)
    await asyncio.gather(*(expire(order) for order in due))
    return len(due)


async def unknown_step(context: WorkerContext) -> int:
    """Look into up to `BATCH` orders granted long ago whose outcome is still to come; how many."""
    now_ms = context.clock.now_ms()
    granted_before_ms = now_ms - context.settings.unknown_after_seconds * 1000

    async def find(tx: Transaction) -> list[store.Order]:
        return await store.silent(tx, granted_before_ms, BATCH)

    def check(order: store.Order) -> Awaitable[None]:
        async def work(tx: Transaction) -> None:
            moved = await store.move(tx, status.CHECK, order, now_ms, origin="network")
            if moved is not None:
                await store.inquire(tx, moved, "no outcome in time", now_ms)

        return context.database.write(work)

    due = await context.database.read(find)
    await asyncio.gather(*(check(order) for order in due))
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
        return LOOK_AGAIN_SECONDS
    return min(max((next_ms - context.clock.now_ms()) / 1000, 0.001), LOOK_AGAIN_SECONDS)
