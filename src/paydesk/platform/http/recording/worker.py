"""The worker that writes the recorded requests, and deletes old requests."""

from __future__ import annotations

import asyncio
from functools import partial

from paydesk.platform.http.recording import store as recorded_store
from paydesk.platform.http.recording.recorder import RequestRecorder
from paydesk.platform.http.recording.store import PRUNED_MAX
from paydesk.platform.storage.database import Locked, Unavailable
from paydesk.platform.worker import WorkerContext

WRITE_SECONDS, DEVELOPMENT_WRITE_SECONDS = 0.25, 0.05
PRUNE_SECONDS = 60.0
ROWS_PER_WRITE_MAX = 128


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Record the requests of this process until `stop` is set."""
    recorder = context.objects.get(RequestRecorder)
    if recorder is None:
        await stop.wait()
        return
    written, loop = asyncio.Event(), asyncio.get_running_loop()
    recorder.wake = written.set
    pause, pruned = DEVELOPMENT_WRITE_SECONDS if context.development else WRITE_SECONDS, float("-inf")
    while not stop.is_set():
        with context.database.signals.subscribe("stop") as stopping:
            waiting = asyncio.ensure_future(written.wait())
            stopped = asyncio.ensure_future(stopping.wait(PRUNE_SECONDS))
            await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            stopped.cancel()
        if not stop.is_set():
            # Requests that are answered within this time are written together.
            await asyncio.sleep(pause)
        written.clear()
        await write(context, recorder)
        if loop.time() - pruned >= PRUNE_SECONDS and not stop.is_set():
            pruned = loop.time()
            await prune(context)
    await write(context, recorder)


async def write(context: WorkerContext, recorder: RequestRecorder) -> None:
    """Write the waiting requests. Those that cannot be written now are dropped and counted."""
    async with recorder.writing:
        rows = []
        for row in recorder.take(context.clock.now_ms()):
            rows.append(row)
            await asyncio.sleep(0)
        for start in range(0, len(rows), ROWS_PER_WRITE_MAX):
            part = rows[start : start + ROWS_PER_WRITE_MAX]
            try:
                await context.database.write(partial(recorded_store.add, recorded=part))
            except (Unavailable, Locked):
                recorder.give_up(len(rows) - start)
                return
            context.database.signals.hint("requests")


async def prune(context: WorkerContext) -> None:
    """Delete requests that are older than seven days or beyond the last 10,000."""
    pruned = PRUNED_MAX
    while pruned == PRUNED_MAX:
        now_ms = context.clock.now_ms()
        pruned = await context.database.write(partial(recorded_store.prune, now_ms=now_ms))
