"""SQLite: units of work on the event loop's own thread, group commit, one file and one process.

Writes that arrive during a COMMIT are queued. The next flush runs all of them, a helper thread commits them together,
and then every caller gets its result.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import apsw
import structlog

from paydesk.core.crash_points import reached
from paydesk.core.metrics import Labels
from paydesk.core.runtime import monotonic
from paydesk.core.signals import Signals
from paydesk.platform.storage import metrics
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Locked, Unavailable, Work, WorkError
from paydesk.platform.storage.sqlite.file import (
    OUT_OF_SERVICE,
    FileLock,
    check_library,
    check_mount,
    connect,
    fsync_failed,
    out_of_service,
    renew_log,
)
from paydesk.platform.storage.sqlite.transaction import SqliteTransaction, read
from paydesk.platform.storage.work import SWALLOWED_AN_ERROR, Unit, run_at_once

T = TypeVar("T")

FLUSH_WORKS_MAX = 256
BUSY_RETRY_SECONDS = 0.005
CHECKPOINT_PAGES = 1000
CHECKPOINT_AGAIN_PAGES = 100
STEPS_BETWEEN_LOOKS = 100_000
"""After so many steps, a few milliseconds, a heavy read looks whether the database was closed."""

WRITE_A_PAGE = "PRAGMA user_version = 0"
"""A write without an effect: the value is 0 already, but SQLite writes the first page."""

_log = structlog.get_logger()
_reads_at_once = metrics.READ_WAIT.buckets  # Reads on the event loop do not wait: to say so costs less than `add`.


class _Write(Unit):
    """A queued write, and the topics to notify after its commit."""

    __slots__ = ("since", "topics")

    def __init__(self, work: Work[Any], answer: asyncio.Future[Any], since: float) -> None:
        super().__init__(work, answer)
        self.since = since
        self.topics: list[str] = []


class SqliteDatabase:
    """One file, created in the event loop that uses it. `exclusive=False` only reads, beside the service."""

    name = "sqlite"
    silence = None

    def __init__(
        self,
        file: Path,
        *,
        signals: Signals | None = None,
        exclusive: bool = True,
        lock_timeout_seconds: float = 10,
        end_process: Callable[[int], object] = os._exit,
    ) -> None:
        check_library(apsw.sqlite_lib_version())
        self.signals = signals or Signals()
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._lock_timeout_seconds = lock_timeout_seconds
        self._end_process = end_process
        self._lock = FileLock(file) if exclusive else None
        self._open: list[apsw.Connection] = []
        try:
            if exclusive:
                renew_log(file)
            self._writer = self._connect(writer=exclusive)
            self._reader = self._connect(writer=False)
            self._heavy_reader = self._connect(writer=False)
            # An interrupt would be lost on a statement that is about to begin.
            self._heavy_reader.set_progress_handler(lambda: self._closed, STEPS_BETWEEN_LOOKS)
        except BaseException:
            self._release()
            raise
        self._writer.set_wal_hook(self._note_wal_pages)
        self._writer_cursor = self._writer.cursor()
        self._reader_cursor = self._reader.cursor()
        self._commits: SimpleQueue[list[_Write] | None] = SimpleQueue()
        # A daemon: a process that never calls `close` can end. A commit that is under way then was not acknowledged.
        self._commit_thread = Thread(target=self._commit_all, name="sqlite-commit", daemon=True)
        self._commit_thread.start()
        self._heavy_thread = ThreadPoolExecutor(1, "sqlite-heavy")
        self._reads_heavily = False
        self._waiting: deque[_Write] = deque()
        self._flushing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._writes_failed = False
        self._wal_pages = 0
        self._checkpoint_at_pages = CHECKPOINT_PAGES

    def _connect(self, *, writer: bool) -> apsw.Connection:
        connection = connect(self._file, writer=writer)
        self._open.append(connection)
        return connection

    def _release(self) -> None:
        for connection in reversed(self._open):
            connection.close()
        if self._lock is not None:
            self._lock.release()

    # Writing ------------------------------------------------------------------------------------------------------

    async def write(self, work: Work[T], *, conflict_keys: Collection[ConflictKey] = ()) -> T:
        """Run `work` in the next flush and return once its commit is on the disk."""
        del conflict_keys  # Works run one after the other, so all can share a commit.
        self._refuse_when_closed()
        answer: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append(_Write(work, answer, self._loop.time()))
        if not self._flushing:
            # In the next turn of the loop, so that all tasks that are ready now share the commit.
            self._flushing = True
            self._idle.clear()
            self._loop.call_soon(self._flush)
        try:
            return await answer
        finally:
            # If the caller was canceled before the flush, its work does not run.
            answer.cancel()

    async def check_writable(self) -> None:
        """Raise what a write would raise. A write, which costs an fsync, is only tried if the last one failed."""
        check_mount(self._file)
        if self._writes_failed:
            await self.write(lambda tx: tx.run(WRITE_A_PAGE))

    def _flush(self) -> None:
        try:
            self._writer_cursor.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            self._flush_later()
            return
        except apsw.Error as error:
            self._fail(self._next_units(), error)
            return
        units, began = self._next_units(), self._loop.time()
        try:
            self._run_all(units)
        except apsw.BusyError:
            self._waiting.extendleft(reversed(units))
            self._flush_later()
            return
        except apsw.Error as error:
            self._fail(units, error)
            return
        for unit in units:
            metrics.WRITE_WAIT.add(began - unit.since)
        self._commits.put(units)

    def _next_units(self) -> list[_Write]:
        waiting = self._waiting
        units: list[_Write] = []
        while waiting and len(units) < FLUSH_WORKS_MAX:
            unit = waiting.popleft()
            if not unit.answer.done():
                units.append(unit)
        return units

    def _flush_later(self) -> None:
        """Retry after another process's write. Units that have waited for too long fail with `Locked`."""
        deadline = self._loop.time() - self._lock_timeout_seconds
        while self._waiting and (self._waiting[0].since <= deadline or self._waiting[0].answer.done()):
            unit = self._waiting.popleft()
            unit.error = Locked(f"Another process kept {self._file} locked for {self._lock_timeout_seconds} s.")
            unit.settle()
        self._loop.call_later(BUSY_RETRY_SECONDS, self._flush)

    def _run_all(self, units: list[_Write]) -> None:
        """Run the works one after the other. If one must be rolled back, run all of them again, each in a savepoint.

        Savepoints copy every changed page, and rollbacks are rare.
        """
        if not any(unit.context.run(self._run, unit) for unit in units):
            return
        self._writer_cursor.execute("ROLLBACK")
        self._writer_cursor.execute("BEGIN IMMEDIATE")
        for unit in units:
            unit.context.run(self._run_in_savepoint, unit)

    def _run_in_savepoint(self, unit: _Write) -> None:
        """Run one work; an error rolls back that work only."""
        self._writer_cursor.execute("SAVEPOINT unit")
        if self._run(unit):
            self._writer_cursor.execute("ROLLBACK TO unit")
        self._writer_cursor.execute("RELEASE unit")

    def _run(self, unit: _Write) -> bool:
        """Run one work and return whether it must be rolled back."""
        unit.error, unit.topics = None, []
        tx = SqliteTransaction(self._writer, self._writer_cursor)
        try:
            unit.result = run_at_once(unit.work, tx)
            if tx.failed:
                raise WorkError(SWALLOWED_AN_ERROR)
            tx.finish()
            unit.topics = tx.topics
        except OUT_OF_SERVICE:
            raise
        except BaseException as error:  # noqa: BLE001 - raised to the caller after the commit
            unit.error = error
            return tx.has_changed_something
        finally:
            tx.ended = True
        return False

    def _commit_all(self) -> None:
        """Commit flush after flush in the helper thread, without a future for each, which would cost more."""
        try:
            while (units := self._commits.get()) is not None:
                self._commit(units)
        except BaseException:  # noqa: BLE001 - without this thread all callers would wait for ever
            if self._loop.is_closed():
                # The process is ending, and no caller is left.
                return
            try:
                _log.critical("commits_failed", file=str(self._file), exc_info=True)
            finally:
                self._end_process(1)

    def _commit(self, units: list[_Write]) -> None:
        """Commit the flush in the helper thread, resolve its units, then checkpoint a long write-ahead log."""
        reached("before_commit")
        try:
            self._writer.execute("COMMIT")
        except apsw.Error as error:
            self._loop.call_soon_threadsafe(self._fail, units, error)
            return
        reached("after_commit")
        if self._wal_pages < self._checkpoint_at_pages:
            self._loop.call_soon_threadsafe(self._committed, units)
            return
        self._loop.call_soon_threadsafe(self._answer, units)
        self._checkpoint()
        self._loop.call_soon_threadsafe(self._flush_next)

    def _committed(self, units: list[_Write]) -> None:
        self._answer(units)
        self._flush_next()

    def _answer(self, units: list[_Write]) -> None:
        self._writes_failed = False
        metrics.BATCH_SIZE.add(len(units))
        for unit in units:
            unit.settle()
        topics = dict.fromkeys(topic for unit in units for topic in unit.topics)
        if topics:
            # In a turn of its own: an exception of a listener must not stop the flushes.
            self._loop.call_soon(self.signals.notify, topics)

    def _fail(self, units: list[_Write], error: apsw.Error) -> None:
        """Roll back the whole flush, which ran in one transaction, and fail its units."""
        self._end_if_fsync_failed(error)
        self._writes_failed = True
        _log.error("database_unavailable", file=str(self._file), error=str(error), writes=len(units))
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except apsw.Error as rollback_error:
            self._end_if_fsync_failed(rollback_error)
        for unit in units:
            unit.error = out_of_service(self._file, error)
            unit.settle()
        self._flush_next()

    def _flush_next(self) -> None:
        if self._waiting:
            self._loop.call_soon(self._flush)
        else:
            self._flushing = False
            self._idle.set()

    def _end_if_fsync_failed(self, error: apsw.Error) -> None:
        if fsync_failed(error):
            _log.critical("fsync_failed", file=str(self._file), error=str(error))
            self._end_process(1)

    # The write-ahead log --------------------------------------------------------------------------------------------

    def _note_wal_pages(self, _connection: apsw.Connection, _schema: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Copy the log into the file. Pages that a reader needs stay and are retried after as many pages more.

        A failed checkpoint is retried soon, so that the log does not fill a disk that was full before.
        """
        try:
            pages, copied = self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            self._end_if_fsync_failed(error)
            _log.warning("checkpoint_failed", file=str(self._file), error=str(error))
            self._checkpoint_at_pages = self._wal_pages + CHECKPOINT_AGAIN_PAGES
            return
        self._checkpoint_at_pages = CHECKPOINT_PAGES + (pages if copied < pages else 0)

    # Reading --------------------------------------------------------------------------------------------------------

    async def read(self, work: Work[T], *, heavy: bool = False) -> T:
        """Run `work` on a snapshot: at once on the loop, or, when `heavy`, in a thread of its own."""
        self._refuse_when_closed()
        deadline = 0.0
        while True:
            try:
                if heavy:
                    heavy_work = partial(copy_context().run, self._heavy, work, monotonic())
                    return await self._loop.run_in_executor(self._heavy_thread, heavy_work)
                result = self._read_at_once(work)
                _reads_at_once[0] += 1
                return result  # noqa: TRY300 - only a read can be busy
            except apsw.BusyError:
                deadline = deadline or self._loop.time() + self._lock_timeout_seconds
                if self._loop.time() > deadline:
                    metrics.ERRORS.add("locked")
                    raise Locked(f"Another process kept {self._file} locked.") from None
                await asyncio.sleep(BUSY_RETRY_SECONDS)
            except Unavailable as error:
                metrics.note_failure(error)
                raise

    def _read_at_once(self, work: Work[T]) -> T:
        """Run `work` on a snapshot that all reads of one turn of the loop share: its locks cost as much as a read.

        A commit is reported in a later turn, so its caller reads what was committed.
        """
        if not self._reader.in_transaction:
            self._reader_cursor.execute("BEGIN")
            self._loop.call_soon(self._end_snapshot)
        return read(work, self._reader, self._reader_cursor)

    def _end_snapshot(self) -> None:
        if self._reader.in_transaction:
            self._reader_cursor.execute("ROLLBACK")

    def _heavy(self, work: Work[T], asked: float) -> T:
        metrics.HEAVY_WAIT.add(monotonic() - asked)
        self._reads_heavily, cursor = True, self._heavy_reader.cursor()
        cursor.execute("BEGIN")
        try:
            return read(work, self._heavy_reader, cursor)
        finally:
            self._reads_heavily = False
            if self._heavy_reader.in_transaction:
                cursor.execute("ROLLBACK")

    def connections_by_state(self) -> dict[Labels, float]:
        """Return how many connections units of work use. A read on the event loop is over when this is asked."""
        in_use = self._flushing + self._reads_heavily
        return {("in_use",): in_use, ("idle",): len(self._open) - in_use}

    # Closing -------------------------------------------------------------------------------------------------------

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise Unavailable(f"{self._file} was closed.")

    async def close(self) -> None:
        """Finish the queued writes, interrupt a heavy read, and release the file."""
        if self._closed:
            return
        self._closed = True
        await self._idle.wait()
        await asyncio.to_thread(self._end_threads)
        self._release()

    def _end_threads(self) -> None:
        self._commits.put(None)
        self._commit_thread.join()
        self._heavy_thread.shutdown()
