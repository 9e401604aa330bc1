"""The worker that notifies terminals of waiting orders when a notification from another node may have been lost.

It scans the live orders that terminals have yet to take or release, and the print actions that they have yet to fetch:
once a second while notifications from other nodes don't arrive, every 10 s otherwise. The cost does not depend on the
number of polls; 50,000 terminals that each polled the database every 5 s would cost 10,000 statements a second. Mode
changes and lease ends are not covered: the next poll finds them, after at most 55 s.
"""

from __future__ import annotations

import asyncio
from functools import partial

from paydesk.core import runtime
from paydesk.engine.orders import store as orders
from paydesk.engine.terminals.print_actions import store as print_actions
from paydesk.platform.worker import WorkerContext

SCAN_SECONDS = 1.0
SCAN_CONNECTED_SECONDS = 10.0
"""The interval while notifications from other nodes arrive, so that a scan should find nothing."""
PAUSE_RATIO = 10
"""A scan is followed by a pause at least 10 times as long, so it uses at most a tenth of one connection."""
STEP_ROWS_MAX = 500


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Scan until `stop` is set. SQLite has one node, so no notification can be lost there."""
    if context.database.name == "sqlite":
        await stop.wait()
    while not stop.is_set():
        started, signals = runtime.monotonic(), context.database.signals
        with signals.subscribe("stop", "remote_lost") as waiter:
            await scan(context, stop)
            pause = SCAN_CONNECTED_SECONDS if signals.remote_connected else SCAN_SECONDS
            await waiter.wait(max(pause, PAUSE_RATIO * (runtime.monotonic() - started)))


async def scan(context: WorkerContext, stop: asyncio.Event) -> None:
    """Notify, on this node, every terminal that has an order to take or to release, or a print action to fetch."""
    for awaiting_terminal in (orders.awaiting_terminal, print_actions.awaiting_terminal):
        seller_id, terminal_id = 0, ""
        while not stop.is_set():
            step = partial(awaiting_terminal, seller_id=seller_id, terminal_id=terminal_id, limit=STEP_ROWS_MAX)
            rows = await context.database.read(step)
            context.database.signals.notify_local(f"terminal:{terminal_id}" for _, terminal_id in rows)
            if len(rows) < STEP_ROWS_MAX:
                break
            seller_id, terminal_id = rows[-1]
