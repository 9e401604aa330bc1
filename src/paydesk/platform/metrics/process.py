"""What `/metrics` says of the process as a whole: its version, its event loop, and its log."""

from __future__ import annotations

import asyncio

from paydesk.core.metrics import Gauge, Histogram
from paydesk.core.version import version
from paydesk.platform.storage.migrate import shipped
from paydesk.platform.worker import WorkerContext

LOOP_SECONDS = 0.5
"""Between observations of the event loop's lag."""

BUILD = Gauge("paydesk_build_info", "What runs; the value is 1.", "version", "schema", "database")
LOOP_LAG = Histogram(
    "paydesk_event_loop_lag_seconds", "How late the event loop runs what is due, observed twice a second."
)


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Say what runs, and observe the lag of the event loop until `stop` is set."""
    labels = (version(), shipped()[-1].name.removesuffix(".sql"), context.database.name)
    loop, lag = asyncio.get_running_loop(), LOOP_LAG.of()
    with BUILD.including(lambda: {labels: 1}):
        while not stop.is_set():
            due = loop.time() + LOOP_SECONDS
            try:
                await asyncio.wait_for(stop.wait(), LOOP_SECONDS)
            except TimeoutError:
                lag.add(max(0.0, loop.time() - due))
