"""PostgreSQL: one transaction per unit of work; whole units are run again where nothing can have been done.

A unit runs in a task of its own that its caller's cancellation doesn't reach: a canceled round trip would be a cancel
request to the server.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Generator, Iterable
from typing import Any, TypeVar

import asyncpg

from paydesk.signals import Signals
from paydesk.storage.database import Locked, Row, Unavailable, UnsafeDatabase, Work, WorkError
from paydesk.storage.postgres_batch import Unit, run_in_step, take
from paydesk.storage.postgres_connections import Connection, Connections, Expired, Lost
from paydesk.storage.statements import only_reads
from paydesk.storage.work import SWALLOWED_AN_ERROR, USED_AFTER_ITS_END, WROTE_IN_A_READ, awaited_something_else

T = TypeVar("T")

ATTEMPTS_MAX = 5
BACKOFF_SECONDS = 0.01

BATCH_UNITS_MAX = 128
FLUSHES_MAX = 2
"""Batches under way at once: while the server runs one, this process prepares the next."""

BEGIN_BATCH = "BEGIN; SET LOCAL lock_timeout = '100ms'"
"""A row that a stranger holds must not keep a whole batch waiting: the units are then run alone."""

_RUN_AGAIN = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)
"""The server undid the unit for another's sake: a rival, or a migration."""

_OUT_OF_SERVICE = (
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresIOError,
    asyncpg.QueryCanceledError,
    asyncpg.ReadOnlySQLTransactionError,
)
"""Not the work's fault: the disk is full, an operator canceled it, or the primary became a standby."""


class _Statement:
    """What a work awaits: it is handed to the driver, which sends its answer back into the work."""

    __slots__ = ("args", "kind", "sql")

    def __init__(self, kind: str, sql: str, args: tuple[Any, ...]) -> None:
        self.kind = kind
        self.sql = sql
        self.args = args

    def __await__(self) -> Generator[_Statement, Any, Any]:
        return (yield self)


class PostgresTransaction:
    """Statements as requests to the driver, which alone knows the connection."""

    __slots__ = ("ended", "topics", "writes")

    def __init__(self) -> None:
        self.ended = False
        self.writes = 0
        self.topics: list[str] = []

    async def one(self, sql: str, *args: Any) -> Row | None:
        """The only row, or None."""
        self._refuse_when_ended()
        row: Row | None = await _Statement("one", sql, args)
        return row

    async def all(self, sql: str, *args: Any) -> list[Row]:
        """All rows."""
        self._refuse_when_ended()
        rows: list[Row] = await _Statement("all", sql, args)
        return rows

    async def run(self, sql: str, *args: Any) -> int:
        """How many rows the statement touched."""
        self._refuse_when_ended()
        count: int = await _Statement("run", sql, args)
        return count

    def wake(self, topic: str) -> None:
        """Remember whom to wake after the commit."""
        self._refuse_when_ended()
        self.topics.append(topic)

    def _refuse_when_ended(self) -> None:
        if self.ended:
            raise WorkError(USED_AFTER_ITS_END)


class _Waiting(Unit):
    """A unit of work that waits for a batch, with its caller's answer."""

    __slots__ = ("answer",)

    def __init__(self, work: Work[Any], touches: Iterable[str], answer: asyncio.Future[Any]) -> None:
        super().__init__(work, touches)
        self.answer = answer

    @property
    def topics(self) -> list[str]:
        """Whom to wake after the commit."""
        return self.tx.topics if self.tx is not None else []

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


def _settle_all(units: list[_Waiting], error: Exception) -> None:
    for unit in units:
        unit.error = error
        unit.settle()


class PostgresDatabase:
    """A PostgreSQL, or whatever speaks like one. Made within the event loop that uses it."""

    name = "postgres"

    def __init__(
        self,
        url: str,
        *,
        signals: Signals | None = None,
        connections_max: int = 20,
        timeout_seconds: float = 15,
        lock_timeout_seconds: float = 10,
        batch_units_max: int = BATCH_UNITS_MAX,
    ) -> None:
        self.signals = signals or Signals()
        self._connections = Connections(
            url,
            connections_max=connections_max,
            timeout_seconds=timeout_seconds,
            lock_timeout_seconds=lock_timeout_seconds,
        )
        self._units: set[asyncio.Task[Any]] = set()
        self._batch_units_max = batch_units_max
        self._waiting: deque[_Waiting] = deque()
        self._flushes = 0
        self._touched: set[str] = set()
        self._closed = False

    async def check(self) -> None:
        """Open a first connection. Raises `UnsafeDatabase` or `Unavailable`."""
        self._connections.give_back(await self._connections.take())

    async def write(self, work: Work[T], *, touches: Iterable[str] = ()) -> T:
        """Run `work` in a transaction, together with others where it says what it touches; return once committed."""
        if not touches or self._batch_units_max < 2:
            return await self._insulated(self._write, work)
        unit = _Waiting(work, touches, asyncio.get_running_loop().create_future())
        self._refuse_when_closed()
        self._waiting.append(unit)
        if self._flushes < FLUSHES_MAX:
            self._flushes += 1
            flush = asyncio.create_task(self._flush())
            self._units.add(flush)
            flush.add_done_callback(self._units.discard)
        result: T = await unit.answer
        return result

    async def read(self, work: Work[T], *, heavy: bool = False) -> T:
        """Run `work`, one round trip a statement; when `heavy`, all of it on one snapshot."""
        return await self._insulated(self._read_heavy if heavy else self._read, work)

    async def close(self) -> None:
        """Finish the units that run and close the connections."""
        self._closed = True
        while self._units:
            # Also what a batch leaves to be run alone.
            await asyncio.wait(self._units)
        await self._connections.close()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise Unavailable("The database was closed.")

    async def _flush(self) -> None:
        """Run what waits, batch after batch, until there is nothing that another flush does not touch."""
        try:
            while batch := take(self._waiting, self._batch_units_max, self._touched):
                touched = set().union(*(unit.touches for unit in batch))
                self._touched |= touched
                try:
                    kept = await self._run_batch(batch)
                except Exception as error:  # noqa: BLE001 - a defect, and the callers are to hear of it
                    _settle_all(batch, error)
                    continue
                finally:
                    self._touched -= touched
                for unit in () if kept else batch:
                    self._run_alone(unit)
        finally:
            self._flushes -= 1

    def _run_alone(self, unit: _Waiting) -> None:
        """In a transaction of its own, beside the batches."""
        alone = asyncio.create_task(self._until_done(self._write, unit.work))
        self._units.add(alone)
        alone.add_done_callback(self._units.discard)
        alone.add_done_callback(unit.settle_as)

    async def _run_batch(self, batch: list[_Waiting]) -> bool:
        """Run the units in step and commit; False when nothing was kept and each is to be run alone."""
        try:
            connection = await self._connections.take()
        except (Unavailable, UnsafeDatabase) as error:
            _settle_all(batch, error)
            return True
        try:
            await connection.execute(BEGIN_BATCH)
            for unit in batch:
                unit.begin(PostgresTransaction(), _Statement)
            await run_in_step(batch, _Statement, connection.fetch_many)
            if any(unit.must_be_undone for unit in batch):
                await _roll_back(connection)
                self._sort_out(batch)
                return True
            await _commit(connection)
        except Unavailable as error:
            _settle_all(batch, error)
            return True
        except (Lost, Expired, asyncpg.PostgresError):
            await _roll_back(connection)
            return False
        finally:
            self._connections.give_back(connection)
        for unit in batch:
            unit.settle()
        topics = [topic for unit in batch if unit.error is None for topic in unit.topics]
        if topics:
            asyncio.get_running_loop().call_soon(self.signals.wake, topics)
        return True

    def _sort_out(self, batch: list[_Waiting]) -> None:
        """After a batch was undone: those it was undone for run alone, the others go first in the next."""
        if len(batch) == 1:
            batch[0].settle()
            return
        for unit in batch:
            if unit.must_be_undone:
                self._run_alone(unit)
        self._waiting.extendleft(reversed([unit for unit in batch if not unit.must_be_undone]))

    async def _insulated(self, attempt: Any, work: Work[T]) -> T:
        self._refuse_when_closed()
        unit = asyncio.create_task(self._until_done(attempt, work))
        self._units.add(unit)
        unit.add_done_callback(self._units.discard)
        try:
            result: T = await asyncio.shield(unit)
        except GeneratorExit:
            # Awaited within another unit of work, which is refused: this one has not begun, and never does.
            unit.cancel()
            raise
        return result

    async def _until_done(self, attempt: Any, work: Work[T]) -> T:
        for attempts in range(1, ATTEMPTS_MAX + 1):
            try:
                result: T = await attempt(work)
                return result  # noqa: TRY300 - the end of the loop is the end of all attempts
            except _RUN_AGAIN as error:
                failure: Exception = error
            except Lost as error:
                self._connections.drop_free()
                failure = error
            except Expired as error:
                raise Unavailable(str(error)) from error
            except asyncpg.LockNotAvailableError as error:
                raise Locked("Another transaction kept a row locked.") from error
            except _OUT_OF_SERVICE as error:
                raise Unavailable(f"PostgreSQL: {error}") from error
            await asyncio.sleep(BACKOFF_SECONDS * 2**attempts * random.random())  # noqa: S311 - only to part rivals
        raise Unavailable(f"PostgreSQL, {ATTEMPTS_MAX} times: {failure}") from failure

    async def _take(self) -> Connection:
        try:
            return await self._connections.take()
        except UnsafeDatabase as error:
            # It became unsafe after the start, which `check` would have refused.
            raise Unavailable(str(error)) from error

    async def _write(self, work: Work[T]) -> T:
        connection = await self._take()
        try:
            tx = PostgresTransaction()
            await connection.execute("BEGIN")
            try:
                result = await _drive(work, tx, connection)
            except BaseException:
                await _roll_back(connection)
                raise
            await _commit(connection)
        finally:
            self._connections.give_back(connection)
        if tx.topics:
            # In a turn of its own: a listener's defect must not look like one of the unit's.
            asyncio.get_running_loop().call_soon(self.signals.wake, tx.topics)
        return result

    async def _read(self, work: Work[T]) -> T:
        # Each statement is a transaction of its own, which is what READ COMMITTED shows anyway.
        connection = await self._take()
        try:
            return await _drive(work, PostgresTransaction(), connection, only_read=True)
        finally:
            self._connections.give_back(connection)

    async def _read_heavy(self, work: Work[T]) -> T:
        connection = await self._take()
        try:
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                return await _drive(work, PostgresTransaction(), connection, only_read=True)
            finally:
                await _roll_back(connection)
        finally:
            self._connections.give_back(connection)


async def _drive(work: Work[T], tx: PostgresTransaction, connection: Connection, *, only_read: bool = False) -> T:
    """Step through the work: whatever it awaits must be one of its own statements."""
    steps = work(tx).__await__()
    try:
        asked = next(steps)
        while True:
            if type(asked) is not _Statement:
                raise awaited_something_else(steps)
            try:
                if only_read and not only_reads(asked.sql):
                    raise WorkError(WROTE_IN_A_READ)
                answer = await _perform(asked, connection)
                if not only_reads(asked.sql):
                    tx.writes += 1
            except Exception as error:  # noqa: BLE001 - the work sees every error where it awaits
                asked = steps.throw(error)
            else:
                asked = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        tx.ended = True


async def _perform(statement: _Statement, connection: Connection) -> Any:
    if statement.kind == "one":
        return await connection.fetchrow(statement.sql, statement.args)
    if statement.kind == "all":
        return await connection.fetch(statement.sql, statement.args)
    tag = await connection.execute(statement.sql, statement.args)
    count = tag.rpartition(" ")[2]
    return int(count) if count.isdigit() else 0


async def _commit(connection: Connection) -> None:
    connection.warned = False
    try:
        tag = await connection.execute("COMMIT")
    except (Lost, Expired) as error:
        raise _unknown(str(error)) from error
    if connection.warned:
        # "Canceling wait for synchronous replication": committed here, and perhaps nowhere else.
        connection.drop()
        raise _unknown("the server warned that the commit may not be replicated")
    if tag != "COMMIT":
        raise WorkError(SWALLOWED_AN_ERROR)


def _unknown(reason: str) -> Unavailable:
    return Unavailable(f"The outcome of a commit is unknown: {reason}")


async def _roll_back(connection: Connection) -> None:
    """Undo, if the connection still lives; dropping it undoes as well."""
    try:
        await connection.execute("ROLLBACK")
    except (Lost, Expired, asyncpg.PostgresError):
        connection.drop()
