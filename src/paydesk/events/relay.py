"""The worker that numbers what nobody reads, at leisure: who reads a feed has its events numbered at once.

So an event costs the path of an order one entry in an index, and the feed of a busy seller hardly more than that.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from paydesk.events import store

if TYPE_CHECKING:
    from paydesk.core.worker import WorkerContext

STEP_EVENTS_MAX = 200
LOOK_EVENTS_MAX = 500
REST_RATIO = 50.0
"""A step is followed by a rest fifty times as long: at most a fiftieth of what a node can do."""
REST_SECONDS_MAX = 2.0
POLL_INTERVAL_SECONDS = 1.0


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Number events until told to stop."""
    while not stop.is_set():
        with context.database.signals.subscribe("stop") as waiter:
            if not await sweep(context, stop):
                await waiter.wait(POLL_INTERVAL_SECONDS)


async def sweep(context: WorkerContext, stop: asyncio.Event) -> bool:
    """One step for every feed with events that wait for a number; whether there may be more. Ends early when told."""
    more, after, found = False, 0, LOOK_EVENTS_MAX
    while found == LOOK_EVENTS_MAX and not stop.is_set():
        look = partial(store.waiting, after_seller=after, limit=LOOK_EVENTS_MAX)
        feeds = await context.database.read(look, heavy=True)
        found = len(feeds)
        for feed in dict.fromkeys(feeds):
            more |= not stop.is_set() and await _step(context, feed) == STEP_EVENTS_MAX
            after = feed.seller_id
    return more


async def _step(context: WorkerContext, feed: store.Feed) -> int:
    loop = asyncio.get_running_loop()
    began = loop.time()
    count = await context.database.write(partial(store.number, feed=feed, limit=STEP_EVENTS_MAX))
    with context.database.signals.subscribe("stop") as waiter:
        await waiter.wait(min((loop.time() - began) * REST_RATIO, REST_SECONDS_MAX))
    return count
