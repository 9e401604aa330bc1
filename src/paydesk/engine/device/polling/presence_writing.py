"""The worker that writes which terminals polled this node."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from paydesk.core import runtime
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.device.presence import RETURNED, WRITE_SECONDS
from paydesk.platform.worker import WorkerContext

EARLY_SECONDS = 1.0
"""Between two writes of a node, while terminals come back."""


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Write the signs of life until `stop` is set, and a last time then."""
    gateway, signals = context.objects.get(Gateway), context.database.signals
    if gateway is None:
        await stop.wait()
        return
    sightings = gateway.sightings
    next_write = runtime.monotonic()
    while not stop.is_set():
        with signals.subscribe(RETURNED, "stop") as waiter:
            left = next_write - runtime.monotonic()
            if left > 0 and not sightings.is_urgent:
                await waiter.wait(left)
                continue
        if left <= 0:
            next_write = runtime.monotonic() + WRITE_SECONDS
        await sightings.write(context.database)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), EARLY_SECONDS)
    await sightings.write(context.database, is_last=True)
