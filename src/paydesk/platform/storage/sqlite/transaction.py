"""The transaction of SQLite: statements on one connection. No method suspends."""

from __future__ import annotations

from typing import Any, TypeVar

import apsw

from paydesk.platform.storage.database import Overtaken, Row, Unavailable, Work, WorkError
from paydesk.platform.storage.deferred import DeferredStatements
from paydesk.platform.storage.sqlite.file import OUT_OF_SERVICE
from paydesk.platform.storage.statements import for_sqlite, is_about_rows
from paydesk.platform.storage.work import USED_AFTER_ITS_END, WROTE_IN_A_READ, run_at_once

T = TypeVar("T")


class SqliteTransaction:
    """What a unit of work awaits. `failed`: the database raised an error, which the work may have caught."""

    __slots__ = ("_connection", "_cursor", "_statements", "_writes_before", "deferred", "ended", "failed", "topics")

    def __init__(self, connection: apsw.Connection, cursor: apsw.Cursor) -> None:
        self._connection = connection
        self._cursor = cursor
        self._statements: list[str] = []
        self._writes_before = connection.total_changes()
        self.ended = False
        self.failed = False
        self.topics: list[str] = []
        self.deferred = DeferredStatements()

    def _rows(self, sql: str, args: tuple[Any, ...]) -> list[Any]:
        if self.ended:
            raise WorkError(USED_AFTER_ITS_END)
        self._statements.append(sql)
        try:
            return self._cursor.execute(for_sqlite(sql), args).fetchall()
        except apsw.Error:
            self.failed = True
            raise

    async def one(self, sql: str, *args: Any) -> Row | None:
        """Return the first row, or None."""
        rows = self._rows(sql, args)
        return rows[0] if rows else None

    async def all(self, sql: str, *args: Any) -> list[Row]:
        """Return all rows."""
        return self._rows(sql, args)

    async def run(self, sql: str, *args: Any) -> int:
        """Return how many rows the statement affected."""
        self._rows(sql, args)
        return self._connection.changes()

    def defer(self, sql: str, *args: Any, notify: str = "", required: bool = False) -> None:
        """Run the statement before the commit: as late as on PostgreSQL, though SQLite gains nothing by it."""
        if self.ended:
            raise WorkError(USED_AFTER_ITS_END)
        self.deferred.add(sql, args, notify, required=required)

    def finish(self) -> None:
        """Run the deferred statements. Raises `Overtaken` after a required one that affected no row."""
        for deferred in self.deferred:
            self._rows(deferred.sql, deferred.args)
            if not self._connection.changes():
                if deferred.required:
                    raise Overtaken
            elif deferred.notify:
                self.topics.append(deferred.notify)

    @property
    def writes(self) -> int:
        """A number that grows with every row that the connection changes and with every deferred statement."""
        return self._connection.total_changes() + len(self.deferred)

    @property
    def has_changed_something(self) -> bool:
        """Whether there is anything to roll back."""
        return self._connection.total_changes() != self._writes_before or not all(map(is_about_rows, self._statements))

    def notify(self, topic: str) -> None:
        """Notify the topic after the commit."""
        if self.ended:
            raise WorkError(USED_AFTER_ITS_END)
        self.topics.append(topic)


def read(work: Work[T], connection: apsw.Connection, cursor: apsw.Cursor) -> T:
    """Run a work that only reads in the caller's transaction."""
    tx = SqliteTransaction(connection, cursor)
    try:
        result = run_at_once(work, tx)
        tx.finish()
    except apsw.ReadOnlyError as error:
        raise WorkError(WROTE_IN_A_READ) from error
    except OUT_OF_SERVICE as error:
        raise Unavailable(str(error)) from error
    finally:
        tx.ended = True
    return result
