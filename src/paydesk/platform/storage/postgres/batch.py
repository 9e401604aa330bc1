"""Batches: queued units of work run in lockstep, one statement of each at a time, and share commits.

A statement costs a round trip, and a commit a flush of the log, for one unit or for sixty. Units in one batch have
disjoint conflict keys (an idempotency key, an order, a terminal, a token), so the order of their statements does not
matter. If a unit raises after a write, the whole batch is rolled back: that unit runs again alone, and the others
without it. No result is returned before the commit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable
from collections.abc import Set as AbstractSet
from typing import Any

from paydesk.core.metrics import Observed
from paydesk.core.runtime import monotonic
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Overtaken, Work, WorkError
from paydesk.platform.storage.deferred import Deferred
from paydesk.platform.storage.postgres.connections import Connection
from paydesk.platform.storage.postgres.sets import execute_many
from paydesk.platform.storage.postgres.transaction import PostgresTransaction, Statement, finish
from paydesk.platform.storage.statements import needs_transaction, only_reads
from paydesk.platform.storage.work import Unit, awaited_something_else

SCANNED_MAX = 1024
"""Units of the queue that are considered for a batch: thousands may have the same conflict key."""


class BatchUnit(Unit):
    """A unit of work in a batch, suspended at its next statement."""

    __slots__ = ("asked", "conflict_keys", "statement", "steps", "tx")

    def __init__(self, work: Work[Any], conflict_keys: Collection[ConflictKey], answer: asyncio.Future[Any]) -> None:
        super().__init__(work, answer)
        self.asked, self.conflict_keys = monotonic(), frozenset(conflict_keys)
        self.tx: PostgresTransaction
        self.steps: Generator[Any, Any, Any] | None = None
        self.statement: Any = None

    def start(self, tx: PostgresTransaction, waits: Observed) -> None:
        """Run to the first statement, or to the end. The first start adds how long it has waited."""
        if self.steps is None:
            waits.add(monotonic() - self.asked)
        self.tx, self.result, self.error = tx, None, None
        self.steps = self.context.run(lambda: self.work(tx).__await__())
        self.resume(None)

    def resume(self, answer: Any) -> None:
        """Run from the result of a statement (None at first) to the next statement, or to the end."""
        assert self.steps is not None, "it was started"
        try:
            self.statement = self.context.run(self.steps.send, answer)
            if type(self.statement) is not Statement:
                raise awaited_something_else(self.steps)
        except StopIteration as end:
            self._end(end.value, None)
        except BaseException as error:  # noqa: BLE001 - raised to the caller
            self._end(None, error)

    def _end(self, result: Any, error: BaseException | None) -> None:
        self.tx.ended, self.statement = True, None
        self.result, self.error = result, error

    @property
    def has_ended(self) -> bool:
        """Whether it has returned or raised; what it deferred has not run yet."""
        return self.statement is None

    @property
    def must_be_rolled_back(self) -> bool:
        """Whether it raised after a write."""
        return self.error is not None and (self.tx.writes > 0 or isinstance(self.error, WorkError))

    def settle_as(self, alone: asyncio.Task[Any]) -> None:
        """Resolve the caller's future with the result of running the unit alone."""
        self.error = alone.exception()
        self.result = alone.result() if self.error is None else None
        self.settle()


class Batches:
    """The queue of units, and the tasks that run them batch by batch."""

    def __init__(self, run: Callable[[list[BatchUnit]], Awaitable[None]], *, flushes_max: int, units_max: int) -> None:
        self.waiting: deque[BatchUnit] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self._run = run
        self._flushes = 0
        self._idle: list[asyncio.Future[None]] = []
        self._ending = False
        self._flushes_max, self._units_max = flushes_max, units_max
        self._busy_keys: set[ConflictKey] = set()

    def put(self, unit: BatchUnit) -> None:
        """Queue a unit for the next batch that has room."""
        self.waiting.append(unit)
        if self._flushes < self._flushes_max:
            self._flushes += 1
            self._resume_flush()

    def end(self) -> None:
        """End the tasks: those without a batch now, the others after the last unit of the queue."""
        self._ending = True
        for idle in self._idle:
            idle.cancel()

    def _resume_flush(self) -> None:
        while self._idle:
            idle = self._idle.pop()
            if not idle.cancelled():
                idle.set_result(None)
                return
        flush = asyncio.create_task(self._flush())
        self.tasks.add(flush)
        flush.add_done_callback(self.tasks.discard)

    async def _flush(self) -> None:
        """Run batches until no unit is left whose conflict keys are free, then wait: a new task costs more."""
        while True:
            while batch := take(self.waiting, self._units_max, self._busy_keys):
                keys = batch[0].conflict_keys.union(*[unit.conflict_keys for unit in batch[1:]])
                self._busy_keys |= keys
                try:
                    await self._run(batch)
                except Exception as error:  # noqa: BLE001 - a defect, which the callers get
                    settle_all(batch, error)
                finally:
                    self._busy_keys -= keys
            self._flushes -= 1
            if self._ending:
                return
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle


def settle_all(units: list[BatchUnit], error: Exception) -> None:
    """Fail all units with the error."""
    for unit in units:
        unit.error = error
        unit.settle()


def take(waiting: deque[BatchUnit], most: int, busy: AbstractSet[ConflictKey]) -> list[BatchUnit]:
    """Remove and return the first units of the queue with disjoint conflict keys, none of them in `busy`.

    The other units keep their order.
    """
    if len(waiting) == 1 and busy.isdisjoint(waiting[0].conflict_keys):
        return [waiting.popleft()]
    taken: list[BatchUnit] = []
    keys = set(busy)
    skipped: list[BatchUnit] = []
    while waiting and len(taken) < most and len(skipped) < SCANNED_MAX:
        unit = waiting.popleft()
        if keys.isdisjoint(unit.conflict_keys):
            taken.append(unit)
        else:
            skipped.append(unit)
        # Also those of a skipped unit, so that no later one with the same key overtakes it.
        keys |= unit.conflict_keys
    waiting.extendleft(reversed(skipped))
    return taken


async def run_in_lockstep(units: list[BatchUnit], connection: Connection, *, until_writes: bool = False) -> None:
    """Run started units to their ends, one statement of each in a round, equal statements together.

    With `until_writes` a unit stops before its first statement that changes or locks rows.
    """
    while running := [
        unit for unit in units if not (unit.has_ended or (until_writes and needs_transaction(unit.statement.sql)))
    ]:
        rounds: dict[tuple[str, str], list[BatchUnit]] = {}
        for unit in running:
            rounds.setdefault((unit.statement.kind, unit.statement.sql), []).append(unit)
        for (kind, sql), group in rounds.items():
            answers = await execute_many(connection, kind, sql, [unit.statement.args for unit in group])
            changes = not only_reads(sql)
            for unit, answer in zip(group, answers, strict=True):
                if changes:
                    unit.tx.writes += _affected_rows(kind, answer)
                unit.resume(answer)


def ended_alike(units: list[BatchUnit]) -> Iterable[list[BatchUnit]]:
    """Return the units that have ended, together those that deferred the same statements: none after an error."""
    alike: dict[tuple[object, ...], list[BatchUnit]] = {}
    for unit in units:
        if unit.has_ended:
            if unit.error is not None:
                unit.tx.deferred.clear()
            same = tuple([(one.sql, one.required, one.notify != "") for one in unit.tx.deferred])
            alike.setdefault(same, []).append(unit)
    return alike.values()


async def finish_together(units: list[BatchUnit], connection: Connection) -> None:
    """Run the deferred statements of the units, equal statements together. A unit that is overtaken has that error."""
    if len(units) == 1:
        try:
            await finish(units[0].tx, connection)
        except Overtaken as error:
            units[0].error = error
        return
    rounds: dict[str, list[tuple[BatchUnit, Deferred]]] = {}
    for unit in units:
        for deferred in unit.tx.deferred if unit.error is None else ():
            rounds.setdefault(deferred.sql, []).append((unit, deferred))
    for sql, group in reversed(rounds.items()):
        counts = await execute_many(connection, "run", sql, [deferred.args for _, deferred in group])
        for (unit, deferred), count in zip(group, counts, strict=True):
            try:
                unit.tx.note(deferred, count)
            except Overtaken as error:
                unit.error = error


def _affected_rows(kind: str, answer: Any) -> int:
    if kind == "run":
        count: int = answer
        return count
    return len(answer) if kind == "all" else int(answer is not None)
