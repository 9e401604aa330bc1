"""PostgreSQL: units of work in batches with one commit each, or alone if they cannot share one.

A unit is retried only when nothing can have been committed. Units run in tasks of their own, out of reach of their
callers' cancellation: canceling a round trip would send a cancel request to the server.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Collection
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

import asyncpg

from paydesk.core.crash_points import reached
from paydesk.core.metrics import Observed
from paydesk.core.runtime import monotonic
from paydesk.core.signals import Signals
from paydesk.platform.storage import metrics
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import (
    DiskFull,
    Locked,
    Overtaken,
    Pooling,
    ReadOnly,
    Unavailable,
    UnsafeDatabase,
    Work,
    WorkError,
)
from paydesk.platform.storage.postgres.batch import (
    Batches,
    BatchUnit,
    ended_alike,
    finish_together,
    run_in_lockstep,
    settle_all,
)
from paydesk.platform.storage.postgres.connections import STANDBY, Connection, Connections
from paydesk.platform.storage.postgres.hosts import Expired, Lost
from paydesk.platform.storage.postgres.sets import BATCH_LOCK_TIMEOUT, form_at_once
from paydesk.platform.storage.postgres.transaction import PostgresTransaction, drive, finish
from paydesk.platform.storage.silence import SILENT
from paydesk.platform.storage.work import SWALLOWED_AN_ERROR

T = TypeVar("T")

ATTEMPTS_MAX = 5
BACKOFF_SECONDS = 0.01

WRITE_UNITS_MAX, WRITES_MAX = 32, 4
READ_UNITS_MAX, READS_MAX = 64, 2
"""Units in a batch, and concurrent batches: this process prepares the next while the server runs some.

With larger batches one takes the whole queue, and server, process and clients wait for each other in turn: with 128
connections, 4 batches of 32 writes have 12% more throughput than 2 of 128. Reads cost this process more than the
server, and least in few large batches.
"""

BEGIN_BATCH = f"BEGIN; SET LOCAL lock_timeout = '{BATCH_LOCK_TIMEOUT}'"

_READ_ONLY = "SELECT current_setting('transaction_read_only') = 'on', pg_is_in_recovery()"

_RETRYABLE = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)
"""The server rolled back the unit because of a concurrent transaction or migration."""

_OUT_OF_SERVICE = (
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresIOError,
    asyncpg.QueryCanceledError,
    asyncpg.ReadOnlySQLTransactionError,
)
"""Errors that the work did not cause: a full disk, a cancel by an operator, a primary that became a standby."""


class PostgresDatabase:
    """A PostgreSQL database, created in the event loop that uses it."""

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
        self.silence, self.connections_by_state = self._connections.silence, self._connections.by_state
        self._alone: set[asyncio.Task[Any]] = set()
        self._batched = write_units_max > 1
        self._writes = Batches(self._write_batch, flushes_max=WRITES_MAX, units_max=write_units_max)
        self._reads = Batches(self._read_batch, flushes_max=READS_MAX, units_max=READ_UNITS_MAX)
        self._closed = False
        self.pooler: Pooling | None = None
        """How a connection pooler in between lends connections, once checked."""

    async def check(self) -> None:
        """Open a first connection, and a second if there is a pooler. Raises `UnsafeDatabase` or `Unavailable`."""
        self.pooler = await self._connections.pooling()

    async def write(self, work: Work[T], *, conflict_keys: Collection[ConflictKey] = ()) -> T:
        """Run `work` in a transaction, with others if it names its conflict keys. Return after the commit."""
        if not conflict_keys or not self._batched:
            return await self._shielded(self._write, work)
        return await self._put(self._writes, work, conflict_keys)

    async def read(self, work: Work[T], *, heavy: bool = False) -> T:
        """Run `work` in a batch without a snapshot; if `heavy`, alone and on one snapshot."""
        if heavy or not self._batched:
            return await self._shielded(self._read_heavy if heavy else self._read, work)
        return await self._put(self._reads, work, ())

    async def run_outside_transaction(self, work: Work[T]) -> T:
        """Run `work` without a transaction, as some changes of the schema need: each statement commits itself."""
        return await self._shielded(partial(self._read, only_read=False), work)

    async def check_writable(self) -> None:
        """Raise `ReadOnly` for a standby, and for a server whose transactions are read-only by default."""
        row = await self.read(lambda tx: tx.one(_READ_ONLY))
        assert row is not None, "the query returns one row"
        is_read_only, is_standby = row
        if is_standby:
            raise ReadOnly(STANDBY)
        if is_read_only:
            raise ReadOnly("default_transaction_read_only is on")

    async def _put(self, batches: Batches, work: Work[T], conflict_keys: Collection[ConflictKey]) -> T:
        self._refuse_when_closed()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        batches.put(BatchUnit(work, conflict_keys, answer))
        return await answer

    async def close(self) -> None:
        """Finish the units that run, then close the connections."""
        self._closed = True
        self._writes.end()
        self._reads.end()
        while under_way := self._alone | self._writes.tasks | self._reads.tasks:
            # A batch can start units that run alone.
            await asyncio.wait(under_way)
        await self._connections.close()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise Unavailable("The database was closed.")

    # Batches ---------------------------------------------------------------------------------------------------------

    async def _write_batch(self, batch: list[BatchUnit]) -> None:
        """Run the units in lockstep and commit. Units that cannot be committed together run alone.

        They share a transaction from the first statement that changes or locks rows. Those that have ended before need
        none: what they deferred is one statement, which commits itself.
        """
        try:
            connection = await self._acquire()
        except Unavailable as error:
            settle_all(batch, error)
            return
        try:
            for unit in batch:
                unit.start(PostgresTransaction(), metrics.WRITE_WAIT)
            try:
                await run_in_lockstep(batch, connection, until_writes=True)
            except (Lost, Expired, asyncpg.PostgresError):
                await self._run_alone_if_answered(self._write, batch)
                return
            left = [unit for unit in batch if not unit.has_ended]
            for units in ended_alike(batch):
                # Behind a pooler the backend of a statement that commits itself is not known, so it can't be ended.
                if connection.is_pooled or not await self._write_at_once(units, connection):
                    left += units
            if left:
                await self._write_in_transaction(left, connection)
        finally:
            self._connections.release(connection)

    async def _write_at_once(self, units: list[BatchUnit], connection: Connection) -> bool:
        """Write what the units deferred with one statement and settle them; False if they need a transaction."""
        if not connection.usable:
            # An earlier statement of the batch has lost it.
            self._run_alone(self._write, units)
            return True
        try:
            if units[0].tx.deferred:
                form = await form_at_once(connection, [unit.tx.deferred for unit in units])
                if form is None:
                    return False
                (counts,) = await _committed(connection, connection.fetch(*form))
                metrics.BATCH_SIZE.add(len(units))
                for unit in units:
                    notifying = [one.notify for one in unit.tx.deferred if one.notify]
                    unit.tx.topics += [topic for topic, count in zip(notifying, counts[2:], strict=False) if count]
        except asyncpg.DivisionByZeroError:
            if len(units) > 1:
                return False  # The transaction finds out which of them was overtaken.
            settle_all(units, Overtaken())
        except Unavailable as error:
            self._connections.leave(connection)
            settle_all(units, error)
        except (Lost, Expired, asyncpg.PostgresError):
            await self._run_alone_if_answered(self._write, units)
        else:
            self._settle(units)
        return True

    async def _write_in_transaction(self, units: list[BatchUnit], connection: Connection) -> None:
        """Run the units to their ends, commit and settle them."""
        try:
            await connection.execute(BEGIN_BATCH)
            await run_in_lockstep(units, connection)
            if not any(unit.must_be_rolled_back for unit in units):
                await finish_together(units, connection)
            if any(unit.must_be_rolled_back for unit in units):
                await _roll_back(connection)
                self._requeue(units)
                return
            await _commit(connection)
            metrics.BATCH_SIZE.add(len(units))
        except Unavailable as error:
            settle_all(units, error)
        except (Lost, Expired, asyncpg.PostgresError):
            await _roll_back(connection)
            await self._run_alone_if_answered(self._write, units)
        else:
            self._settle(units)

    def _settle(self, units: list[BatchUnit]) -> None:
        for unit in units:
            unit.settle()
        self._notify([topic for unit in units if unit.error is None for topic in unit.tx.topics])

    def _requeue(self, batch: list[BatchUnit]) -> None:
        """After a rollback: run the units that caused it alone, and put the others first in the queue.

        A unit that was overtaken ends with that: its caller looks again.
        """
        causes = [unit for unit in batch if unit.must_be_rolled_back]
        for unit in causes:
            if len(batch) == 1 or isinstance(unit.error, Overtaken):
                unit.settle()
        self._run_alone(self._write, [unit for unit in causes if not unit.answer.done()])
        self._writes.waiting.extendleft(reversed([unit for unit in batch if not unit.must_be_rolled_back]))

    async def _read_batch(self, batch: list[BatchUnit]) -> None:
        """Run the units in lockstep, each statement in its own transaction, as READ COMMITTED allows."""
        try:
            connection = await self._acquire()
        except Unavailable as error:
            settle_all(batch, error)
            return
        try:
            for unit in batch:
                unit.start(PostgresTransaction(only_read=True), metrics.READ_WAIT)
            await run_in_lockstep(batch, connection)
        except (Lost, Expired, asyncpg.PostgresError):
            await self._run_alone_if_answered(self._read, [unit for unit in batch if not unit.tx.ended])
        finally:
            self._connections.release(connection)
        for unit in batch:
            if unit.tx.ended:
                unit.settle()

    async def _run_alone_if_answered(self, attempt: Any, units: list[BatchUnit]) -> None:
        """Run each unit alone, unless the server is silent: their time is over."""
        if self.silence.lasts and not await self.silence.ends_soon():
            settle_all(units, Unavailable(SILENT))
        else:
            self._run_alone(attempt, units)

    def _run_alone(self, attempt: Any, units: list[BatchUnit]) -> None:
        """Run each unit on a connection of its own."""
        for unit in units:
            alone = self._start(attempt, unit.work, unit.context)
            alone.add_done_callback(unit.settle_as)

    # Alone -----------------------------------------------------------------------------------------------------------

    def _start(self, attempt: Any, work: Work[T], context: Context | None = None) -> asyncio.Task[T]:
        alone = asyncio.create_task(self._until_done(attempt, work), context=context)
        self._alone.add(alone)
        alone.add_done_callback(self._alone.discard)
        return alone

    async def _shielded(self, attempt: Any, work: Work[T]) -> T:
        self._refuse_when_closed()
        unit = self._start(attempt, work)
        try:
            result: T = await asyncio.shield(unit)
        except GeneratorExit:
            # Awaited within another unit of work, which is a defect: this unit must not start.
            unit.cancel()
            raise
        except Exception as error:
            metrics.note_failure(error)
            raise
        return result

    async def _until_done(self, attempt: Any, work: Work[T]) -> T:
        for attempts in range(1, ATTEMPTS_MAX + 1):
            try:
                result: T = await attempt(work)
                return result  # noqa: TRY300 - after the loop all attempts have failed
            except _RETRYABLE as error:
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
            await asyncio.sleep(BACKOFF_SECONDS * 2**attempts * random.random())  # noqa: S311 - jitter, not a secret
        raise Unavailable(f"PostgreSQL failed {ATTEMPTS_MAX} times: {failure}") from failure

    async def _acquire(self, waits: Observed | None = None) -> Connection:
        asked = monotonic()
        try:
            connection = await self._connections.acquire()
        except UnsafeDatabase as error:
            # The server was safe at the start, as `check` made sure.
            raise Unavailable(str(error)) from error
        if waits is not None:
            waits.add(monotonic() - asked)
        return connection

    async def _write(self, work: Work[T]) -> T:
        connection = await self._acquire(metrics.WRITE_WAIT)
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
            metrics.BATCH_SIZE.add(1)
        finally:
            self._connections.release(connection)
        self._notify(tx.topics)
        return result

    def _notify(self, topics: list[str]) -> None:
        if topics:
            # In a turn of its own: an exception of a listener must not fail the unit.
            asyncio.get_running_loop().call_soon(self.signals.notify, topics)

    async def _read(self, work: Work[T], *, only_read: bool = True) -> T:
        connection = await self._acquire(metrics.READ_WAIT)
        try:
            return await drive(work, PostgresTransaction(only_read=only_read), connection)
        finally:
            self._connections.release(connection)

    async def _read_heavy(self, work: Work[T]) -> T:
        connection = await self._acquire(metrics.HEAVY_WAIT)
        try:
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                return await drive(work, PostgresTransaction(only_read=True), connection)
            finally:
                await _roll_back(connection)
        finally:
            self._connections.release(connection)


def _out_of_service(error: asyncpg.PostgresError) -> Unavailable:
    if isinstance(error, asyncpg.DiskFullError):
        return DiskFull(f"PostgreSQL: {error}")
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return ReadOnly("PostgreSQL accepts no writes")
    return Unavailable(f"PostgreSQL: {error}")


async def _commit(connection: Connection) -> None:
    if await _committed(connection, connection.execute("COMMIT")) != "COMMIT":
        raise WorkError(SWALLOWED_AN_ERROR)


async def _committed(connection: Connection, last: Awaitable[T]) -> T:
    """Return the result of the round trip that commits. Raises `Unavailable` if its outcome is unknown."""
    connection.warned = False
    reached("before_commit")
    try:
        result = await last
    except (Lost, Expired) as error:
        raise _unknown(str(error)) from error
    if connection.warned:
        # "canceling wait for synchronous replication": committed on the primary, perhaps not on a standby.
        connection.drop()
        raise _unknown("the server warned that the commit may not be replicated")
    reached("after_commit")
    return result


def _unknown(reason: str) -> Unavailable:
    return Unavailable(f"The outcome of a commit is unknown: {reason}")


async def _roll_back(connection: Connection) -> None:
    """Roll back, or drop the connection, which has the same effect."""
    try:
        await connection.execute("ROLLBACK")
    except (Lost, Expired, asyncpg.PostgresError):
        connection.drop()
