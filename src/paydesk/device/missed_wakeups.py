"""The worker that finds orders which their terminals have not taken, where the wake from another node was lost.

It walks over the few orders that still wait for their terminal, once a second while the nodes don't hear each other.
That costs a node the same with ten terminals that poll and with fifty thousand: were each poll to look every five
seconds by itself, these would be 10,000 statements a second for nothing. What is no order (a mode, the end of a lease)
the next poll sees, 55 seconds later at most.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from paydesk.orders import store as orders

if TYPE_CHECKING:
    from paydesk.core.worker import WorkerContext

WALK_SECONDS = 1.0
BACKOFF_RESET_SECONDS = 10.0
"""So often while wakes are carried, when there should be nothing to find."""
REST = 10
"""It rests ten times as long as a walk has taken: however much waits, a tenth of one connection at most is used."""
STEP_ORDERS_MAX = 500


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Wake the terminals whose orders wait, until told to stop. On SQLite there is no other node to miss a wake of."""
    if context.database.name == "sqlite":
        await stop.wait()
    while not stop.is_set():
        started = time.monotonic()
        await walk(context, stop)
        signals = context.database.signals
        with signals.subscribe("stop", "remote_lost") as waiter:
            pause = BACKOFF_RESET_SECONDS if signals.remote_connected else WALK_SECONDS
            await waiter.wait(max(pause, REST * (time.monotonic() - started)))


async def walk(context: WorkerContext, stop: asyncio.Event) -> None:
    """Wake, on this node, every terminal that has an order to take or to give back."""
    seller_id, terminal_id = 0, ""
    while not stop.is_set():
        step = partial(orders.missed_wakeups, seller_id=seller_id, terminal_id=terminal_id, limit=STEP_ORDERS_MAX)
        found = await context.database.read(step)
        context.database.signals.notify_local(f"terminal:{terminal_id}" for _, terminal_id in found)
        if len(found) < STEP_ORDERS_MAX:
            return
        seller_id, terminal_id = found[-1]
