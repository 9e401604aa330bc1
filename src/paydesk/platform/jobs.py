"""Background jobs: one node claims a due row, makes an attempt outside any transaction, and commits the outcome.

The schedule follows the service's clock; leases of claimed rows follow the machine's clock, which nothing moves. After
a crash the lease expires, and another attempt is made.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Collection, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from paydesk.core.clock import Clock, SystemClock
from paydesk.platform.storage.database import Database, Locked, Transaction, Unavailable
from paydesk.platform.worker import WorkerContext

POLL_INTERVAL_SECONDS = 1.0
STOP_SECONDS_MAX = 3.0

G = TypeVar("G")
T = TypeVar("T")


class Removed(Exception):
    """What the job is about was removed after the claim, by a reset in development: there is nothing left to do."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of up to `limit` due rows, by the service's time and the machine's, until a time of the machine's."""

    now_ms: int
    wall_ms: int
    until_ms: int
    limit: int


class Job(ABC, Generic[G, T]):
    """A kind of job. Its due rows are claimed in groups `G`, such as those of a seller; each row `T` is one attempt."""

    topic: str
    """The signal that rows have become due."""
    log: Any
    failure: str
    """The log event of an attempt that raised an exception."""
    coalesce_seconds = 0.0
    """After each turn, so that signals that come in bursts are merged into one query and one claim."""

    @abstractmethod
    def groups(self, database: Database, now_ms: int, wall_ms: int) -> AsyncGenerator[G, None]:
        """Yield the groups that have due, unclaimed rows."""

    @abstractmethod
    def lease_seconds(self, context: WorkerContext) -> float:
        """Return how long a claim lasts: it outlasts an attempt and its commits."""

    @abstractmethod
    def free(self, group: G, running: Collection[G]) -> int:
        """Return how many more attempts of the group may start; `running` are the groups of those that run."""

    @abstractmethod
    async def claim(self, tx: Transaction, group: G, claim: Claim) -> list[T]:
        """Claim due rows of the group, each for one attempt."""

    @abstractmethod
    async def next_ms(self, tx: Transaction, now_ms: int) -> int | None:
        """Return when the next row becomes due."""

    @abstractmethod
    def attempt(self, context: WorkerContext, row: T) -> Coroutine[Any, Any, None]:
        """Return the coroutine of one attempt."""

    @abstractmethod
    def name(self, row: T) -> str:
        """Return the row's name in the log."""

    @abstractmethod
    def row_facts(self, row: T) -> dict[str, Any]:
        """Return the seller and the order of the row in the log."""

    async def release(self, database: Database, row: T) -> None:
        """Release the claim of an attempt that was canceled; by default it expires."""


class JobWorker(Generic[G, T]):
    """Claims due rows and makes their attempts concurrently. `wall` is the machine's clock."""

    def __init__(self, context: WorkerContext, job: Job[G, T], *, wall: Clock | None = None) -> None:
        self._context, self._database, self._clock, self._job = context, context.database, context.clock, job
        self._wall = wall or SystemClock()
        self._lease_seconds = job.lease_seconds(context)
        self._running: dict[asyncio.Task[None], tuple[G, T]] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Process due rows until `stop` is set, then give running attempts `STOP_SECONDS_MAX` to finish."""
        try:
            while not stop.is_set():
                with self._database.signals.subscribe(self._job.topic, "clock", "stop") as waiter:
                    await self.start_due()
                    if not stop.is_set():
                        await waiter.wait(await self._pause_seconds())
                if self._job.coalesce_seconds:
                    await asyncio.sleep(self._job.coalesce_seconds)
        finally:
            await self._end()

    async def step(self) -> int:
        """Process the rows that are due now and wait for their attempts; return their number."""
        started = await self.start_due()
        await self.settle()
        return started

    async def settle(self) -> None:
        """Wait until no attempt is running."""
        while self._running:
            await asyncio.wait(self._running)

    async def start_due(self) -> int:
        """Claim due rows and start their attempts; return their number."""
        started = 0
        async with aclosing(self._job.groups(self._database, self._clock.now_ms(), self._wall.now_ms())) as groups:
            async for group in groups:
                limit = self._job.free(group, [group for group, _ in self._running.values()])
                if limit > 0:
                    started += await self._claim(group, limit)
        return started

    async def _claim(self, group: G, limit: int) -> int:
        # Reading the service's clock detects a jump of the machine's clock, after which a lease could last for days.
        now_ms, wall_ms = self._clock.now_ms(), self._wall.now_ms()
        claim = Claim(now_ms, wall_ms, wall_ms + round(self._lease_seconds * 1000), limit)
        rows = await self._database.write(lambda tx: self._job.claim(tx, group, claim))
        for row in rows:
            task = asyncio.create_task(self._job.attempt(self._context, row), name=self._job.name(row))
            self._running[task] = group, row
            task.add_done_callback(self._done)
        return len(rows)

    def _done(self, task: asyncio.Task[None]) -> None:
        _, row = self._running.pop(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            facts = {"job": task.get_name(), "lease_seconds": self._lease_seconds, **self._job.row_facts(row)}
            if isinstance(error, Unavailable | Locked):
                self._job.log.warning(self._job.failure, **facts, reason=str(error))
            elif isinstance(error, Removed):
                self._job.log.info("job_removed", **facts, reason=str(error))
            else:
                self._job.log.error(self._job.failure, **facts, exc_info=error)
        self._database.signals.notify_local([self._job.topic])

    async def _pause_seconds(self) -> float:
        """Return the seconds until the next row is due, at most `POLL_INTERVAL_SECONDS`: other nodes add rows too."""
        now_ms = self._clock.now_ms()
        next_ms = await self._database.read(lambda tx: self._job.next_ms(tx, now_ms))
        return POLL_INTERVAL_SECONDS if next_ms is None else min((next_ms - now_ms) / 1000, POLL_INTERVAL_SECONDS)

    async def _end(self) -> None:
        try:
            if self._running:
                await asyncio.wait(self._running, timeout=STOP_SECONDS_MAX)
        finally:
            # Also if this is canceled, because another worker has ended first: attempts need what is closed next.
            left = dict(self._running)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        for _, row in left.values():
            await self._job.release(self._database, row)


async def run_together(stop: asyncio.Event, *workers: JobWorker[Any, Any]) -> None:
    """Run workers until `stop` is set. If one fails, end the others and raise its exception."""
    tasks = [asyncio.create_task(worker.run(stop)) for worker in workers]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
