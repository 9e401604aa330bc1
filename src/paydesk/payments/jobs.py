"""Jobs that call the acquirer: due rows are claimed by one node, processed outside any transaction, and committed.

The schedule follows the service's clock; leases of claimed rows follow the machine's clock, which nothing moves. After
a crash the lease expires and another attempt runs under the same idempotency key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from paydesk.core import conflict_keys
from paydesk.core.clock import Clock, SystemClock
from paydesk.core.crash_points import reached
from paydesk.orders import store
from paydesk.orders.order import Order
from paydesk.payments.acquirer import RESPONSE_SECONDS_MAX
from paydesk.storage.database import Locked, Transaction, Unavailable

if TYPE_CHECKING:
    from paydesk.core.worker import WorkerContext

DUE_ROWS_MAX = 200
LEASE_SECONDS = 2 * RESPONSE_SECONDS_MAX + 10
"""Covers an inquiry, a reversal after it, and the commits between them."""
CONCURRENT_JOBS_MAX = 16
POLL_INTERVAL_SECONDS = 1.0
STOP_SECONDS_MAX = 3.0

T = TypeVar("T")
R = TypeVar("R")

log = structlog.get_logger("acquirer")


def statements(table: str, key: str, columns: str, is_open: str) -> tuple[str, str, str]:
    """Return the queue's SQL for a table: the sellers with due rows, the next due time, and the claim for a seller."""
    return (
        # $1 is the service's time, $2 the machine's.
        f"""
SELECT seller_id FROM {table} WHERE {is_open} AND next_ms <= $1 AND claimed_until_ms <= $2
 ORDER BY next_ms LIMIT $3""",
        f"SELECT min(next_ms) FROM {table} WHERE {is_open} AND next_ms > $1",
        f"""
UPDATE {table} SET claimed_until_ms = $4, attempts = attempts + 1
 WHERE seller_id = $1 AND {key} IN (WITH chosen AS MATERIALIZED (
       SELECT {key} FROM {table}
        WHERE seller_id = $1 AND {is_open} AND next_ms <= $2 AND claimed_until_ms <= $3
        ORDER BY next_ms LIMIT $5 FOR UPDATE SKIP LOCKED) SELECT * FROM chosen)
RETURNING {columns}""",
    )


@dataclass(frozen=True, slots=True)
class JobQueue(Generic[T]):
    """The due rows of a table, by its three `statements`. `row` builds a row from the columns that a claim returns."""

    sellers_due: str
    next_due: str
    claim_due: str
    row: Callable[..., T]

    async def sellers(self, tx: Transaction, now_ms: int, wall_ms: int) -> list[int]:
        """Return the sellers that have due, unclaimed rows; the longest overdue first."""
        rows = await tx.all(self.sellers_due, now_ms, wall_ms, DUE_ROWS_MAX)
        return list(dict.fromkeys(row[0] for row in rows))

    async def next_ms(self, tx: Transaction, now_ms: int) -> int | None:
        """Return when the next row becomes due."""
        row = await tx.one(self.next_due, now_ms)
        return row[0] if row else None

    async def claim(
        self, tx: Transaction, seller_id: int, *, now_ms: int, wall_ms: int, until_ms: int, limit: int
    ) -> list[T]:
        """Claim up to `limit` due rows of the seller until `until_ms`, for one attempt each."""
        rows = await tx.all(self.claim_due, seller_id, now_ms, wall_ms, until_ms, limit)
        return [self.row(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """A kind of job: its queue, the function that runs one attempt, and how the log names a row.

    A lease outlasts the attempt and its commits.
    """

    queue: JobQueue[T]
    process: Callable[[WorkerContext, T], Coroutine[Any, Any, None]]
    name: Callable[[T], str]
    lease_seconds: float


class JobWorker(Generic[T]):
    """Claims due rows and processes them concurrently. `wall` is the machine's clock, which leases follow."""

    def __init__(self, context: WorkerContext, job: Job[T], *, wall: Clock | None = None) -> None:
        self._context, self._database, self._job = context, context.database, job
        self._wall = wall or SystemClock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Process due rows until `stop` is set, then give running attempts `STOP_SECONDS_MAX` to finish."""
        try:
            while not stop.is_set():
                with self._database.signals.subscribe("money", "clock", "stop") as waiter:
                    await self.start_due()
                    if not stop.is_set():
                        await waiter.wait(await self._pause_seconds())
        finally:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=STOP_SECONDS_MAX)
            for task in self._tasks:
                task.cancel()

    async def step(self) -> int:
        """Process the rows that are due now and wait for their attempts; return their number."""
        started = await self.start_due()
        await self.settle()
        return started

    async def settle(self) -> None:
        """Wait until no attempt is running."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def start_due(self) -> int:
        """Claim due rows and start their attempts; return their number."""
        now_ms, wall_ms = self._context.clock.now_ms(), self._wall.now_ms()
        started = 0
        for seller_id in await self._database.read(lambda tx: self._job.queue.sellers(tx, now_ms, wall_ms)):
            limit = CONCURRENT_JOBS_MAX - len(self._tasks)
            if limit > 0:
                started += await self._claim(seller_id, limit)
        return started

    async def _claim(self, seller_id: int, limit: int) -> int:
        # Reading the service's clock detects a jump of the machine's clock, after which a lease could last for days.
        now_ms, wall_ms = self._context.clock.now_ms(), self._wall.now_ms()
        until_ms = wall_ms + round(self._job.lease_seconds * 1000)
        claim = partial(self._job.queue.claim, now_ms=now_ms, wall_ms=wall_ms, until_ms=until_ms, limit=limit)
        rows = await self._database.write(lambda tx: claim(tx, seller_id))
        for row in rows:
            reached("claimed")
            task = asyncio.create_task(self._job.process(self._context, row), name=self._job.name(row))
            self._tasks.add(task)
            task.add_done_callback(self._done)
        return len(rows)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        lease = {"job": task.get_name(), "lease_seconds": self._job.lease_seconds}
        if isinstance(error, Unavailable | Locked):
            log.warning("job_failed", **lease, reason=str(error))
        elif error is not None:
            log.error("job_failed", **lease, exc_info=error)
        self._database.signals.notify_local(["money"])

    async def _pause_seconds(self) -> float:
        """Return the seconds until the next row is due, at most `POLL_INTERVAL_SECONDS`: other nodes add rows too."""
        now_ms = self._context.clock.now_ms()
        next_ms = await self._database.read(lambda tx: self._job.queue.next_ms(tx, now_ms))
        return POLL_INTERVAL_SECONDS if next_ms is None else min((next_ms - now_ms) / 1000, POLL_INTERVAL_SECONDS)


async def commit(context: WorkerContext, order: Order, change: Callable[[Transaction, Order, int], Awaitable[R]]) -> R:
    """Apply a change in one transaction that locks the order's row."""
    now_ms = context.clock.now_ms()

    async def work(tx: Transaction) -> R:
        current = await store.lock(tx, order.seller_id, order.order_id)
        assert current is not None, "orders are never deleted"
        return await change(tx, current, now_ms)

    keys = conflict_keys.order(order.order_id), conflict_keys.terminal(order.terminal_id)
    return await context.database.write(work, conflict_keys=keys)


def next_attempt_ms(attempts: int, now_ms: int, pauses_seconds: tuple[int, ...]) -> int:
    """Return when to retry after `attempts` attempts; the last pause repeats."""
    return now_ms + pauses_seconds[min(attempts, len(pauses_seconds)) - 1] * 1000


def describe(outcome: Any) -> str:
    """Return the kind and reason of a result for the log, without card data."""
    reason = getattr(outcome, "reason", "") or getattr(outcome, "detail", "")
    return f"{type(outcome).__name__}{reason and f': {reason}'}"
