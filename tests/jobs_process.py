"""The workers of inquiries and reversals in a process of their own, so that a test can kill it between two steps."""

from __future__ import annotations

import asyncio

from paydesk.core import crash_points
from paydesk.core.clock import MovableClock
from paydesk.core.keys import Keys
from paydesk.core.objects import Objects
from paydesk.engine.payments import inquiries, reversals
from paydesk.engine.payments.simulator.acquirer import create_acquirers
from paydesk.platform.jobs import JobWorker
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.worker import WorkerContext


async def process_all(database_url: str, now_ms: int, wall_ms: int) -> None:
    """Process jobs until none is due."""
    database = await open_database(database_url)
    clock, wall = MovableClock(frozen_ms=now_ms), MovableClock(frozen_ms=wall_ms)
    acquirers = create_acquirers(database, clock, acquirer="none")
    context = WorkerContext(database, Settings(), clock, Keys(1, {1: b"k" * 32}), objects=Objects(acquirers))
    asking = JobWorker(context, inquiries.JOB, wall=wall)
    giving_back = JobWorker(context, reversals.JOB, wall=wall)
    while await asking.step() + await giving_back.step():
        pass
    await database.close()


def main(arguments: list[str]) -> None:
    """Process due jobs, and die at the label if there is one."""
    database_url, now_ms, wall_ms, label = arguments
    for known in crash_points.STEP_LABELS:
        if known == label:
            crash_points.arm(known)
    asyncio.run(process_all(database_url, int(now_ms), int(wall_ms)))
