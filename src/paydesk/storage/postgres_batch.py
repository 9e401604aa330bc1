"""Units of work in step: what waits goes statement by statement, each for all of them at once, into one commit.

A statement costs a round trip, and a commit a flush of the log, whether one unit asks for it or sixty. Units that name
what they touch (a key, an order, a terminal, a token) share a batch only with units that touch something else; between
two of those it does not matter whose statement comes first. A unit that fails or refuses after it wrote is undone with
the whole batch and run again alone, and the others without it: nobody's answer is given before the commit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable
from collections.abc import Set as AbstractSet
from contextvars import copy_context
from typing import Any

from paydesk.storage.database import Work, WorkError
from paydesk.storage.postgres_connections import Connection
from paydesk.storage.postgres_sets import ask
from paydesk.storage.postgres_transaction import Last, PostgresTransaction, Statement, finish
from paydesk.storage.statements import only_reads
from paydesk.storage.work import awaited_something_else

LOOKED_AT_MAX = 1024
"""So far into the queue a batch is looked for: thousands may wait for one and the same order."""


class Unit:
    """A unit of work on its way through a batch, with its caller's answer."""

    __slots__ = ("answer", "asked", "conflict_keys", "context", "error", "result", "steps", "tx", "work")

    def __init__(self, work: Work[Any], conflict_keys: Iterable[Hashable], answer: asyncio.Future[Any]) -> None:
        self.work = work
        self.conflict_keys = frozenset(conflict_keys)
        self.answer = answer
        self.context = copy_context()
        self.tx = PostgresTransaction()
        self.steps: Generator[Any, Any, Any] | None = None
        self.asked: Any = None
        self.result: Any = None
        self.error: BaseException | None = None

    def begin(self, tx: PostgresTransaction) -> None:
        """Run to the first statement."""
        self.tx, self.result, self.error = tx, None, None
        self.steps = self.context.run(lambda: self.work(tx).__await__())
        self.go_on(None)

    def go_on(self, answer: Any) -> None:
        """Run from a statement's answer (None at first) to the next statement, or to the end."""
        assert self.steps is not None, "it has begun"
        try:
            self.asked = self.context.run(self.steps.send, answer)
            if type(self.asked) is not Statement:
                raise awaited_something_else(self.steps)
        except StopIteration as end:
            self._end(end.value, None)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's answer
            self._end(None, error)

    def _end(self, result: Any, error: BaseException | None) -> None:
        self.tx.ended, self.asked = True, None
        self.result, self.error = result, error

    @property
    def must_be_undone(self) -> bool:
        """Whether it wrote and then failed or refused."""
        return self.error is not None and (self.tx.writes > 0 or isinstance(self.error, WorkError))

    def settle(self) -> None:
        """Answer the caller, unless it went away."""
        if self.answer.done():
            return
        if self.error is None:
            self.answer.set_result(self.result)
        else:
            self.answer.set_exception(self.error)

    def settle_as(self, alone: asyncio.Task[Any]) -> None:
        """Answer the caller with what came of running it alone."""
        self.error = alone.exception()
        self.result = alone.result() if self.error is None else None
        self.settle()


class Batches:
    """What waits to be run together, and the flushes that run it, batch after batch."""

    def __init__(self, run: Callable[[list[Unit]], Awaitable[None]], *, flushes_max: int, units_max: int) -> None:
        self.waiting: deque[Unit] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self._run = run
        self._flushes = 0
        self._flushes_max, self._units_max = flushes_max, units_max
        self._touched: set[Hashable] = set()

    def put(self, unit: Unit) -> None:
        """Run it in the next batch that has room."""
        self.waiting.append(unit)
        if self._flushes < self._flushes_max:
            self._flushes += 1
            flush = asyncio.create_task(self._flush())
            self.tasks.add(flush)
            flush.add_done_callback(self.tasks.discard)

    async def _flush(self) -> None:
        """Run what waits until there is nothing that another flush does not touch."""
        while batch := take(self.waiting, self._units_max, self._touched):
            touched = set[Hashable]().union(*(unit.conflict_keys for unit in batch))
            self._touched |= touched
            try:
                await self._run(batch)
            except Exception as error:  # noqa: BLE001 - a defect, and the callers are to hear of it
                settle_all(batch, error)
            finally:
                self._touched -= touched
        self._flushes -= 1


def settle_all(units: list[Unit], error: Exception) -> None:
    """Answer all of them with the error."""
    for unit in units:
        unit.error = error
        unit.settle()


def take(waiting: deque[Unit], most: int, busy: AbstractSet[Hashable]) -> list[Unit]:
    """The units at the head of the queue of which no two touch the same, nor what is `busy`; the others keep waiting.

    They stay in their order.
    """
    taken: list[Unit] = []
    touched = set(busy)
    behind: list[Unit] = []
    while waiting and len(taken) < most and len(behind) < LOOKED_AT_MAX:
        unit = waiting.popleft()
        if touched.isdisjoint(unit.conflict_keys):
            taken.append(unit)
        else:
            behind.append(unit)
        # Also what one behind conflict_keys: whoever comes later must not overtake it.
        touched |= unit.conflict_keys
    waiting.extendleft(reversed(behind))
    return taken


async def run_in_step(units: list[Unit], connection: Connection) -> None:
    """Run begun units to their ends, each round one statement of each, equal statements together."""
    running = [unit for unit in units if unit.asked is not None]
    while running:
        rounds: dict[tuple[str, str], list[Unit]] = {}
        for unit in running:
            rounds.setdefault((unit.asked.kind, unit.asked.sql), []).append(unit)
        for (kind, sql), asking in rounds.items():
            answers = await ask(connection, kind, sql, [unit.asked.args for unit in asking])
            changes = not only_reads(sql)
            for unit, answer in zip(asking, answers, strict=True):
                if changes:
                    unit.tx.writes += _touched_rows(kind, answer)
                unit.go_on(answer)
        running = [unit for unit in running if unit.asked is not None]


async def finish_together(units: list[Unit], connection: Connection) -> None:
    """Run what the units left for the end, equal statements together."""
    if len(units) == 1:
        await finish(units[0].tx, connection)
        return
    rounds: dict[str, list[tuple[PostgresTransaction, Last]]] = {}
    for unit in units:
        for last in unit.tx.last if unit.error is None else ():
            rounds.setdefault(last.sql, []).append((unit.tx, last))
    for sql, leaving in rounds.items():
        counts = await ask(connection, "run", sql, [last.args for _, last in leaving])
        for (tx, last), count in zip(leaving, counts, strict=True):
            if last.notify and count:
                tx.topics.append(last.notify)


def _touched_rows(kind: str, answer: Any) -> int:
    if kind == "run":
        count: int = answer
        return count
    return len(answer) if kind == "all" else int(answer is not None)
