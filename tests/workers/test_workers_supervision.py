"""Workers are restarted until they are stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import structlog

from paydesk.core.clock import SystemClock
from paydesk.core.keys import Keys
from paydesk.core.objects import Objects
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Locked, Unavailable
from paydesk.platform.worker import Worker, WorkerContext
from paydesk.service import workers
from skipped_waits import skipped_waits
from waiting import until


@pytest.fixture
async def context(database: Database) -> AsyncIterator[WorkerContext]:
    """What workers are given; their pauses are skipped."""
    with skipped_waits(database):
        yield WorkerContext(database, Settings(), SystemClock(), Keys(1, {1: b"k" * 32}), objects=Objects(Acquirers()))


async def test_restarts_what_failed(context: WorkerContext) -> None:
    """A worker that raises is started again; one without a database, too."""
    stop, failures = asyncio.Event(), iter([Unavailable("away"), ValueError("a defect")])

    async def run(_: WorkerContext, stop: asyncio.Event) -> None:
        for failure in failures:
            raise failure
        stop.set()

    await workers.run_all(context, stop, (Worker("shaky", run),))


async def test_others_go_on(context: WorkerContext) -> None:
    """A worker that fails does not take the others with it."""
    stop, failures = asyncio.Event(), list[str]()

    async def fail(_: WorkerContext, __: asyncio.Event) -> None:
        failures.append("a defect")
        raise ValueError("a defect")

    async def work(_: WorkerContext, stop: asyncio.Event) -> None:
        await until(lambda: len(failures) == 2)
        stop.set()

    await workers.run_all(context, stop, (Worker("bad", fail), Worker("good", work)))


async def test_stops_the_stubborn(context: WorkerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that does not end by itself is canceled after a while."""
    monkeypatch.setattr(workers, "STOP_SECONDS_MAX", 0.1)
    stop, ended = asyncio.Event(), asyncio.Event()

    async def run(_: WorkerContext, stop: asyncio.Event) -> None:
        stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await workers.run_all(context, stop, (Worker("stubborn", run),))
    assert ended.is_set()


@pytest.mark.on_postgres
async def test_stops_all_at_once(context: WorkerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """All workers of the table end by themselves after the stop: none has to be canceled."""
    monkeypatch.setattr(workers, "STOP_SECONDS_MAX", None)
    stop, signals = asyncio.Event(), context.database.signals
    running = asyncio.create_task(workers.run_all(context, stop))
    await until(lambda: {"clock", "money", "deliveries", "resends"} <= {*signals.waited_on()})
    stop.set()
    await running


async def test_a_rival_is_no_failure(context: WorkerContext) -> None:
    """A row that another node's worker holds is the normal case: nothing to be alarmed by, and tried again soon."""
    stop, rivals = asyncio.Event(), iter([Locked("held")] * 3)

    async def run(_: WorkerContext, stop: asyncio.Event) -> None:
        for rival in rivals:
            raise rival
        stop.set()

    with structlog.testing.capture_logs() as logged:
        await workers.run_all(context, stop, (Worker("one of many", run),))
    assert [line["log_level"] for line in logged if line.get("worker") == "one of many"] == ["debug"] * 3
