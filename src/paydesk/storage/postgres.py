"""PostgreSQL: units of work in batches, one commit for all that wait; alone where they can't share one.

Whole units are run again where nothing can have been done. They run in tasks of their own that their callers'
cancellation doesn't reach: a canceled round trip would be a cancel request to the server.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

import asyncpg

from paydesk.core.crash_points import reached
from paydesk.core.signals import Signals
from paydesk.storage.database import DiskFull, Locked, ReadOnly, Unavailable, UnsafeDatabase, Work, WorkError
from paydesk.storage.postgres_batch import Batches, Unit, finish_together, run_in_step, settle_all
from paydesk.storage.postgres_connections import STANDBY, Connection, Connections, Expired, Lost
from paydesk.storage.postgres_transaction import PostgresTransaction, drive, finish
from paydesk.storage.work import SWALLOWED_AN_ERROR

T = TypeVar("T")

ATTEMPTS_MAX = 5
BACKOFF_SECONDS = 0.01

WRITE_UNITS_MAX, WRITES_MAX = 32, 4
READ_UNITS_MAX, READS_MAX = 64, 2
"""Units of a batch, and batches under way at once: while the server runs some, this process prepares the next.

Of larger ones one takes all that waits, all of its callers are answered at once and come back at once: server, process
and callers then wait for each other in turn. 128 connections create and refresh an eighth more by four times 32 writes
than by twice 128. What only reads costs this process more than the server, and least in few large batches.
"""

BEGIN_BATCH = "BEGIN; SET LOCAL lock_timeout = '100ms'"
"""A row that a stranger holds must keep neither a batch waiting nor its place: the units are then run alone."""

_READ_ONLY = "SELECT current_setting('transaction_read_only') = 'on', pg_is_in_recovery()"

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
        write_units_max: int = WRITE_UNITS_MAX,
    ) -> None:
        self.signals = signals or Signals()
        self._connections = Connections(
            url,
            connections_max=connections_max,
            timeout_seconds=timeout_seconds,
            lock_timeout_seconds=lock_timeout_seconds,
        )
        self._alone: set[asyncio.Task[Any]] = set()
        self._batched = write_units_max > 1
        self._writes = Batches(self._write_batch, flushes_max=WRITES_MAX, units_max=write_units_max)
        self._reads = Batches(self._read_batch, flushes_max=READS_MAX, units_max=READ_UNITS_MAX)
        self._closed = False

    async def check(self) -> None:
        """Open a first connection. Raises `UnsafeDatabase` or `Unavailable`."""
        self._connections.give_back(await self._connections.take())

    async def write(self, work: Work[T], *, conflict_keys: Iterable[Hashable] = ()) -> T:
        """Run `work` in a transaction, together with others where it names its conflict keys; return once committed."""
        if not conflict_keys or not self._batched:
            return await self._insulated(self._write, work)
        return await self._put(self._writes, work, conflict_keys)

    async def read(self, work: Work[T], *, heavy: bool = False) -> T:
        """Run `work`, one round trip a statement, for all that wait; when `heavy`, alone and on one snapshot."""
        if heavy or not self._batched:
            return await self._insulated(self._read_heavy if heavy else self._read, work)
        return await self._put(self._reads, work, ())

    async def check_writable(self) -> None:
        """Raise `ReadOnly` where transactions are read-only by default, and for a standby when it is connected to."""
        row = await self.read(lambda tx: tx.one(_READ_ONLY))
        assert row is not None, "it always has one row"
        is_read_only, is_standby = row
        if is_standby:
            raise ReadOnly(STANDBY)
        if is_read_only:
            raise ReadOnly("default_transaction_read_only is on")

    async def _put(self, batches: Batches, work: Work[T], conflict_keys: Iterable[Hashable]) -> T:
        self._refuse_when_closed()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        batches.put(Unit(work, conflict_keys, answer))
        return await answer

    async def close(self) -> None:
        """Finish the units that run and close the connections."""
        self._closed = True
        while under_way := self._alone | self._writes.tasks | self._reads.tasks:
            # Also what a batch leaves to be run alone.
            await asyncio.wait(under_way)
        await self._connections.close()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise Unavailable("The database was closed.")

    # Together --------------------------------------------------------------------------------------------------------

    async def _write_batch(self, batch: list[Unit]) -> None:
        """Run the units in step and commit; what can't be kept so is run alone."""
        try:
            connection = await self._take()
        except Unavailable as error:
            settle_all(batch, error)
            return
        try:
            await connection.execute(BEGIN_BATCH)
            for unit in batch:
                unit.begin(PostgresTransaction())
            await run_in_step(batch, connection)
            if any(unit.must_be_undone for unit in batch):
                await _roll_back(connection)
                self._sort_out(batch)
                return
            await finish_together(batch, connection)
            await _commit(connection)
        except Unavailable as error:
            settle_all(batch, error)
            return
        except (Lost, Expired, asyncpg.PostgresError):
            await _roll_back(connection)
            self._run_alone(self._write, batch)
            return
        finally:
            self._connections.give_back(connection)
        for unit in batch:
            unit.settle()
        self._wake([topic for unit in batch if unit.error is None for topic in unit.tx.topics])

    def _sort_out(self, batch: list[Unit]) -> None:
        """After a batch was undone: those it was undone for run alone, the others go first in the next."""
        if len(batch) == 1:
            batch[0].settle()
            return
        self._run_alone(self._write, [unit for unit in batch if unit.must_be_undone])
        self._writes.waiting.extendleft(reversed([unit for unit in batch if not unit.must_be_undone]))

    async def _read_batch(self, batch: list[Unit]) -> None:
        """Run the units in step, each statement a transaction of its own, which is what READ COMMITTED shows anyway."""
        try:
            connection = await self._take()
        except Unavailable as error:
            settle_all(batch, error)
            return
        try:
            for unit in batch:
                unit.begin(PostgresTransaction(only_read=True))
            await run_in_step(batch, connection)
        except (Lost, Expired, asyncpg.PostgresError):
            self._run_alone(self._read, [unit for unit in batch if not unit.tx.ended])
        finally:
            self._connections.give_back(connection)
        for unit in batch:
            if unit.tx.ended:
                unit.settle()

    def _run_alone(self, attempt: Any, units: list[Unit]) -> None:
        """Each on a connection of its own, beside the batches."""
        for unit in units:
            alone = self._start(attempt, unit.work)
            alone.add_done_callback(unit.settle_as)

    # Alone -----------------------------------------------------------------------------------------------------------

    def _start(self, attempt: Any, work: Work[T]) -> asyncio.Task[T]:
        alone = asyncio.create_task(self._until_done(attempt, work))
        self._alone.add(alone)
        alone.add_done_callback(self._alone.discard)
        return alone

    async def _insulated(self, attempt: Any, work: Work[T]) -> T:
        self._refuse_when_closed()
        unit = self._start(attempt, work)
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
                raise _out_of_service(error) from error
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
                result = await drive(work, tx, connection)
                await finish(tx, connection)
            except BaseException:
                await _roll_back(connection)
                raise
            await _commit(connection)
        finally:
            self._connections.give_back(connection)
        self._wake(tx.topics)
        return result

    def _wake(self, topics: list[str]) -> None:
        if topics:
            # In a turn of its own: a listener's defect must not look like one of the unit's.
            asyncio.get_running_loop().call_soon(self.signals.notify, topics)

    async def _read(self, work: Work[T]) -> T:
        connection = await self._take()
        try:
            return await drive(work, PostgresTransaction(only_read=True), connection)
        finally:
            self._connections.give_back(connection)

    async def _read_heavy(self, work: Work[T]) -> T:
        connection = await self._take()
        try:
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                return await drive(work, PostgresTransaction(only_read=True), connection)
            finally:
                await _roll_back(connection)
        finally:
            self._connections.give_back(connection)


def _out_of_service(error: asyncpg.PostgresError) -> Unavailable:
    if isinstance(error, asyncpg.DiskFullError):
        return DiskFull(f"PostgreSQL: {error}")
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return ReadOnly("PostgreSQL takes no writes")
    return Unavailable(f"PostgreSQL: {error}")


async def _commit(connection: Connection) -> None:
    connection.warned = False
    reached("before_commit")
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
    reached("after_commit")


def _unknown(reason: str) -> Unavailable:
    return Unavailable(f"The outcome of a commit is unknown: {reason}")


async def _roll_back(connection: Connection) -> None:
    """Undo, if the connection still lives; dropping it undoes as well."""
    try:
        await connection.execute("ROLLBACK")
    except (Lost, Expired, asyncpg.PostgresError):
        connection.drop()
