"""The worker that notifies operators in a process of its own, so that a test can kill it between two commits."""

from __future__ import annotations

import asyncio

from paydesk.core import crash_points
from paydesk.core.clock import MovableClock
from paydesk.core.keys import Keys
from paydesk.core.objects import Objects
from paydesk.engine.payments.simulator.acquirer import create_acquirers
from paydesk.operators.attention import notifying
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.worker import WorkerContext


async def _step(database_url: str, now_ms: int) -> None:
    database = await open_database(database_url)
    clock = MovableClock(frozen_ms=now_ms)
    objects = Objects(create_acquirers(database, clock, acquirer="none"))
    await notifying.step(WorkerContext(database, Settings(), clock, Keys(1, {1: b"k" * 32}), objects=objects))
    await database.close()


def main(arguments: list[str]) -> None:
    """Make one step, and die at the label when it is reached for the `times`-th time, if there is one."""
    database_url, now_ms, label, times = arguments
    for known in crash_points.LABELS:
        if known == label:
            crash_points.arm(known, int(times))
    asyncio.run(_step(database_url, int(now_ms)))
