"""PostgreSQL: one transaction per unit of work; whole units are run again where nothing can have been done.

A unit runs in a task of its own that its caller's cancellation doesn't reach: a canceled round trip would be a cancel
request to the server.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator
from typing import Any, TypeVar

import asyncpg

from paydesk.signals import Signals
from paydesk.storage.database import Locked, Row, Unavailable, UnsafeDatabase, Work, WorkError
from paydesk.storage.postgres_connections import Connection, Connections, Expired, Lost
from paydesk.storage.statements import only_reads
from paydesk.storage.work import SWALLOWED_AN_ERROR, USED_AFTER_ITS_END, WROTE_IN_A_READ, awaited_something_else

T = TypeVar("T")

ATTEMPTS_MAX = 5
BACKOFF_SECONDS = 0.01

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

    __slots__ = ("ended", "topics")

    def __init__(self) -> None:
        self.ended = False
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
        tag: str = await _Statement("run", sql, args)
        count = tag.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    def wake(self, topic: str) -> None:
        """Remember whom to wake after the commit."""
        self._refuse_when_ended()
        self.topics.append(topic)

    def _refuse_when_ended(self) -> None:
        if self.ended:
            raise WorkError(USED_AFTER_ITS_END)


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
    ) -> None:
        self.signals = signals or Signals()
        self._connections = Connections(
            url,
            connections_max=connections_max,
            timeout_seconds=timeout_seconds,
            lock_timeout_seconds=lock_timeout_seconds,
        )
        self._units: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def check(self) -> None:
        """Open a first connection. Raises `UnsafeDatabase` or `Unavailable`."""
        self._connections.give_back(await self._connections.take())

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction and return once it is committed."""
        return await self._insulated(self._write, work)

    async def read(self, work: Work[T], *, heavy: bool = False) -> T:
        """Run `work`, one round trip a statement; when `heavy`, all of it on one snapshot."""
        return await self._insulated(self._read_heavy if heavy else self._read, work)

    async def close(self) -> None:
        """Finish the units that run and close the connections."""
        self._closed = True
        if self._units:
            await asyncio.wait(self._units)
        await self._connections.close()

    async def _insulated(self, attempt: Any, work: Work[T]) -> T:
        if self._closed:
            raise Unavailable("The database was closed.")
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
    return await connection.execute(statement.sql, statement.args)


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
