"""How workers ask the acquirer: claimed, asked outside any transaction, taken. Many at once, each once at a time.

A crash in between leaves a claim that runs out; then it is asked again, under the same key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import structlog

from paydesk.acquiring.acquirer import Payment, Unknown
from paydesk.clock import Clock, SystemClock
from paydesk.crash_points import reached
from paydesk.orders.store import Order
from paydesk.storage.database import Locked, Transaction, Unavailable

if TYPE_CHECKING:
    from paydesk.workers import WorkerContext

ASK_SECONDS_MAX = 30
CLAIM_SECONDS = 2 * ASK_SECONDS_MAX + 10
"""For an inquiry and a reversal after it, and what is written down between them."""
UNDER_WAY_MAX = 16
LOOK_AGAIN_SECONDS = 1.0
STOP_SECONDS_MAX = 3.0

T = TypeVar("T")

log = structlog.get_logger("acquirer")


class Claim(Protocol[T]):
    """Takes up to `limit` due ones of a seller."""

    def __call__(
        self, tx: Transaction, seller_id: int, *, now_ms: int, wall_ms: int, until_ms: int, limit: int
    ) -> Awaitable[list[T]]:
        """The claimed ones."""


@dataclass(frozen=True, slots=True)
class Work(Generic[T]):
    """What is asked about: who has some that is due, when the next is due, how it is claimed, and what is done."""

    sellers_due: Callable[[Transaction, int, int], Awaitable[list[int]]]
    next_due_ms: Callable[[Transaction, int], Awaitable[int | None]]
    claim: Claim[T]
    bring_on: Callable[[WorkerContext, T], Coroutine[Any, Any, None]]


class AskingWorker(Generic[T]):
    """Claims what is due and brings each of it on. `wall` is the machine's clock, which claims go by."""

    def __init__(self, context: WorkerContext, work: Work[T], *, wall: Clock | None = None) -> None:
        self._context, self._database, self._work = context, context.database, work
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
        while self._under_way:
            await asyncio.wait(self._under_way)
        return started

    async def start_due(self) -> int:
        """Claim what is due and begin with it; how many."""
        now_ms, wall_ms = self._context.clock.now_ms(), self._wall.now_ms()
        started = 0
        for seller_id in await self._database.read(lambda tx: self._work.sellers_due(tx, now_ms, wall_ms)):
            limit = UNDER_WAY_MAX - len(self._under_way)
            if limit:
                started += await self._claim(seller_id, limit, now_ms)
        return started

    async def _claim(self, seller_id: int, limit: int, now_ms: int) -> int:
        wall_ms = self._wall.now_ms()
        claim = partial(
            self._work.claim, now_ms=now_ms, wall_ms=wall_ms, until_ms=wall_ms + CLAIM_SECONDS * 1000, limit=limit
        )
        claimed = await self._database.write(lambda tx: claim(tx, seller_id))
        for one in claimed:
            reached("claimed")
            task = asyncio.create_task(self._work.bring_on(self._context, one), name=repr(one))
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
        self._database.signals.wake_here(["money"])

    async def _pause_seconds(self) -> float:
        """Seconds until the next one is due, at most one: other nodes write too."""
        now_ms = self._context.clock.now_ms()
        next_ms = await self._database.read(lambda tx: self._work.next_due_ms(tx, now_ms))
        return LOOK_AGAIN_SECONDS if next_ms is None else min((next_ms - now_ms) / 1000, LOOK_AGAIN_SECONDS)


async def answer_of(asked: Awaitable[T]) -> T | Unknown:
    """What the acquirer says; one that does not answer in time may have done it."""
    try:
        return await asyncio.wait_for(asked, ASK_SECONDS_MAX)
    except TimeoutError:
        return Unknown(f"no answer within {ASK_SECONDS_MAX} s")


def payment_of(order: Order) -> Payment:
    """The order's payment as the acquirer knows it."""
    return Payment(
        merchant_id=order.seller_id,
        terminal_id=order.terminal_id,
        payment_id=order.payment_id,
        amount_minor=order.amount_minor,
        currency=order.currency,
    )


def touched(order_id: str, terminal_id: str = "") -> tuple[str, ...]:
    """What an outcome changes: its order, and what stands on the terminal."""
    return (f"order:{order_id}", *((f"terminal:{terminal_id}",) if terminal_id else ()))


def next_ms(attempts: int, now_ms: int, pauses_seconds: tuple[int, ...]) -> int:
    """When to ask again after so many attempts; after all of the pauses the last one is made again and again."""
    return now_ms + pauses_seconds[min(attempts, len(pauses_seconds)) - 1] * 1000


def shown(outcome: Any) -> str:
    """An answer for the log: its kind and why, without the card."""
    reason = getattr(outcome, "reason", "") or getattr(outcome, "detail", "")
    return f"{type(outcome).__name__}{reason and f': {reason}'}"
