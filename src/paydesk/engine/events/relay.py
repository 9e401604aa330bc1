"""The worker that numbers events of feeds that no client is reading. A read numbers the events of its feed at once.

Numbering is therefore not part of the order's transaction: there an event costs one index entry.
"""

from __future__ import annotations

import asyncio
from functools import partial

from paydesk.engine.events import numbering, store
from paydesk.platform.worker import WorkerContext

STEP_EVENTS_MAX = 200
QUERY_EVENTS_MAX = 500
PAUSE_RATIO = 50.0
"""A step is followed by a pause 50 times as long, so numbering uses at most 2 % of a node's time."""
PAUSE_SECONDS_MAX = 2.0
POLL_INTERVAL_SECONDS = 1.0


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Number events until `stop` is set."""
    while not stop.is_set():
        with context.database.signals.subscribe("stop") as waiter:
            if not await sweep(context, stop):
                await waiter.wait(POLL_INTERVAL_SECONDS)


async def sweep(context: WorkerContext, stop: asyncio.Event) -> bool:
    """Run one step for every feed with unnumbered events; return whether there may be more."""
    loop = asyncio.get_running_loop()
    more, after, count = False, 0, QUERY_EVENTS_MAX
    while count == QUERY_EVENTS_MAX and not stop.is_set():
        query = partial(store.unnumbered_feeds, after_seller=after, limit=QUERY_EVENTS_MAX)
        feeds = await context.database.read(query, heavy=True)
        count = len(feeds)
        for feed in dict.fromkeys(feeds):
            if stop.is_set():
                break
            began = loop.time()
            with context.database.signals.subscribe("stop") as waiter:
                numbered = await numbering.number(context.database, feed, STEP_EVENTS_MAX)
                await waiter.wait(min((loop.time() - began) * PAUSE_RATIO, PAUSE_SECONDS_MAX))
            more |= numbered == STEP_EVENTS_MAX
            after = feed.seller_id
    return more
