"""A process that announces events at a steady rate and delivers them: `main([URL, EVENTS, PER_SECOND, BEGAN])`.

It continues where a process that was killed stopped, so that all processes of a run announce each event once.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from pathlib import Path

# The parent of the processes runs in the folder of the tests.
sys.path.append(str(Path(__file__).parents[2]))

import structlog
from bench import notifications

from paydesk.core.clock import SystemClock
from paydesk.engine.webhooks.delivery import worker
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.worker import WorkerContext

ANNOUNCED = "SELECT COUNT(*) FROM order_events"
BATCH_SECONDS = 0.1
SETTINGS = Settings(webhook_retry_seconds=(1, 2, 4, 8, 15, 30, 60), webhook_timeout_seconds=12)


async def announced(tx: Transaction) -> int:
    """Return how many events there are."""
    row = await tx.one(ANNOUNCED)
    assert row is not None
    return int(row[0])


async def _announce(database: Database, events: int, per_second: float, began: float) -> None:
    planned, done = notifications.orders_of(events), await database.read(announced)
    while done < events:
        due = min(events, round((time.time() - began) * per_second))
        done += await notifications.announce(database, planned[done:due], round(time.time() * 1000))
        await asyncio.sleep(BATCH_SECONDS)


async def _run(url: str, events: int, per_second: float, began: float) -> None:
    database, stop = await open_database(url), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    context = WorkerContext(database, SETTINGS, SystemClock(), notifications.KEYS, loopback_allowed=True)
    announcing = asyncio.create_task(_announce(database, events, per_second, began))
    delivering = asyncio.create_task(worker.run(context, stop))
    await stop.wait()
    announcing.cancel()
    database.signals.notify(["stop"])
    await delivering
    await database.close()


def main(arguments: list[str]) -> None:
    """Run until SIGTERM."""
    url, events, per_second, began = arguments
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(_run(url, int(events), float(per_second), float(began)))
