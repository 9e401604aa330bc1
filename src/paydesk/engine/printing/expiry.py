"""The worker that cancels print actions whose time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals.print_actions import store as action_store
from paydesk.engine.terminals.print_actions.action import EXPIRE, PrintAction
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Transaction
from paydesk.platform.worker import WorkerContext

BATCH = 100
POLL_INTERVAL_SECONDS = 1.0


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Expire overdue actions until `stop` is set."""
    while not stop.is_set():
        with context.database.signals.subscribe("clock", "stop") as waiter:
            if await step(context) < BATCH:
                await waiter.wait(POLL_INTERVAL_SECONDS)


async def step(context: WorkerContext) -> int:
    """Expire up to `BATCH` overdue actions; return their number."""
    now_ms = context.clock.now_ms()
    due = await context.database.read(lambda tx: action_store.overdue(tx, now_ms, BATCH))

    def expire(action: PrintAction) -> Awaitable[None]:
        async def work(tx: Transaction) -> None:
            await terminals.lock(tx, action.seller_id, action.terminal_id)
            await action_store.end(tx, action, EXPIRE, now_ms)

        return context.database.write(work, conflict_keys=(conflict_keys.terminal(action.terminal_id),))

    await asyncio.gather(*(expire(action) for action in due))
    return len(due)
