"""How workers ask the acquirer: claimed, asked outside any transaction, taken. Many at once, each once at a time.

A crash in between leaves a claim that runs out; then it is asked again, under the same key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from paydesk.core.clock import Clock, SystemClock
from paydesk.core.crash_points import reached
from paydesk.orders import store
from paydesk.orders.order import Order
from paydesk.payments.job_queue import JobQueue
from paydesk.payments.requests import ASK_SECONDS_MAX
from paydesk.storage.database import Locked, Transaction, Unavailable

if TYPE_CHECKING:
    from paydesk.core.worker import WorkerContext

CLAIM_SECONDS = 2 * ASK_SECONDS_MAX + 10
"""For an inquiry and a reversal after it, and what is written down between them."""
UNDER_WAY_MAX = 16
POLL_INTERVAL_SECONDS = 1.0
STOP_SECONDS_MAX = 3.0

T = TypeVar("T")
R = TypeVar("R")

log = structlog.get_logger("acquirer")


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """What is asked about: what of it is due, what one attempt does, and what the log calls it.

    A claim outlives its attempt, with what is written down on the way.
    """

    due: JobQueue[T]
    process: Callable[[WorkerContext, T], Coroutine[Any, Any, None]]
    named: Callable[[T], str]
    claim_seconds: float


class JobWorker(Generic[T]):
    """Claims what is due and brings each of it on. `wall` is the machine's clock, which claims go by."""

    def __init__(self, context: WorkerContext, job: Job[T], *, wall: Clock | None = None) -> None:
        self._context, self._database, self._job = context, context.database, job
        self._wall = wall or SystemClock()
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Ask until `stop` is set; what is under way then has a few seconds, and is asked again otherwise."""
        try:
            while not stop.is_set():
                with self._database.signals.subscribe("money", "clock", "stop") as waiter:
                    await self.start_due()
                    if not stop.is_set():
                        await waiter.wait(await self._pause_seconds())
        finally:
            if self._under_way:
                await asyncio.wait(self._under_way, timeout=STOP_SECONDS_MAX)
            for task in self._under_way:
                task.cancel()

    async def step(self) -> int:
        """Bring on what is due now, to the end of this attempt; how many."""
        started = await self.start_due()
        await self.settle()
        return started

    async def settle(self) -> None:
        """Wait until nothing is under way."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def start_due(self) -> int:
        """Claim what is due and begin with it; how many."""
        now_ms, wall_ms = self._context.clock.now_ms(), self._wall.now_ms()
        started = 0
        for seller_id in await self._database.read(lambda tx: self._job.due.sellers(tx, now_ms, wall_ms)):
            limit = UNDER_WAY_MAX - len(self._under_way)
            if limit > 0:
                started += await self._claim(seller_id, limit)
        return started

    async def _claim(self, seller_id: int, limit: int) -> int:
        # The first says whether the machine's clock is off by now: a claim of such a clock could last for days.
        now_ms, wall_ms = self._context.clock.now_ms(), self._wall.now_ms()
        until_ms = wall_ms + round(self._job.claim_seconds * 1000)
        claim = partial(self._job.due.claim, now_ms=now_ms, wall_ms=wall_ms, until_ms=until_ms, limit=limit)
        claimed = await self._database.write(lambda tx: claim(tx, seller_id))
        for one in claimed:
            reached("claimed")
            task = asyncio.create_task(self._job.process(self._context, one), name=self._job.named(one))
            self._under_way.add(task)
            task.add_done_callback(self._done)
        return len(claimed)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Unavailable | Locked):
            log.warning("not brought on, its claim runs out", about=task.get_name(), reason=str(error))
        elif error is not None:
            log.error("not brought on, its claim runs out", about=task.get_name(), exc_info=error)
        self._database.signals.notify_local(["money"])

    async def _pause_seconds(self) -> float:
        """Seconds until the next one is due, at most one: other nodes write too."""
        now_ms = self._context.clock.now_ms()
        next_ms = await self._database.read(lambda tx: self._job.due.next_ms(tx, now_ms))
        return POLL_INTERVAL_SECONDS if next_ms is None else min((next_ms - now_ms) / 1000, POLL_INTERVAL_SECONDS)


async def commit(
    context: WorkerContext, order: Order, change: Callable[[Transaction, Order, int], Awaitable[R]], *conflict_keys: str
) -> R:
    """Make a change to the order, which is held meanwhile, at the time that it is now."""
    now_ms = context.clock.now_ms()

    async def work(tx: Transaction) -> R:
        held = await store.lock(tx, order.seller_id, order.order_id)
        assert held is not None, "orders are never deleted"
        return await change(tx, held, now_ms)

    return await context.database.write(work, conflict_keys=(f"order:{order.order_id}", *conflict_keys))


def shown(outcome: Any) -> str:
    """An answer for the log: its kind and why, without the card."""
    reason = getattr(outcome, "reason", "") or getattr(outcome, "detail", "")
    return f"{type(outcome).__name__}{reason and f': {reason}'}"
