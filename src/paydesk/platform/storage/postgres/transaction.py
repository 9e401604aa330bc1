"""The transaction of PostgreSQL: a unit of work awaits requests to the driver, which has the connection."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any, TypeVar

from paydesk.platform.storage.database import Overtaken, Row, Work, WorkError
from paydesk.platform.storage.deferred import Deferred, DeferredStatements
from paydesk.platform.storage.postgres.connections import Connection
from paydesk.platform.storage.postgres.sets import execute_one, execute_together
from paydesk.platform.storage.statements import only_reads
from paydesk.platform.storage.work import USED_AFTER_ITS_END, WROTE_IN_A_READ, awaited_something_else

T = TypeVar("T")


class Statement:
    """What a work awaits: the driver executes it and sends the result back into the work."""

    __slots__ = ("args", "kind", "sql")

    def __init__(self, kind: str, sql: str, args: tuple[Any, ...]) -> None:
        self.kind = kind
        self.sql = sql
        self.args = args

    def __await__(self) -> Generator[Statement, Any, Any]:
        return (yield self)


class PostgresTransaction:
    """Creates statements, which the driver executes."""

    __slots__ = ("deferred", "ended", "only_read", "topics", "writes")

    def __init__(self, *, only_read: bool = False) -> None:
        self.ended = False
        self.only_read = only_read
        self.writes = 0
        self.topics: list[str] = []
        self.deferred = DeferredStatements()

    def one(self, sql: str, *args: Any) -> Awaitable[Row | None]:
        """Return the first row, or None."""
        self._check(sql)
        return Statement("one", sql, args)

    def all(self, sql: str, *args: Any) -> Awaitable[list[Row]]:
        """Return all rows."""
        self._check(sql)
        return Statement("all", sql, args)

    def run(self, sql: str, *args: Any) -> Awaitable[int]:
        """Return how many rows the statement affected."""
        self._check(sql)
        return Statement("run", sql, args)

    def defer(self, sql: str, *args: Any, notify: str = "", required: bool = False) -> None:
        """Run the statement before the commit."""
        self._check(sql)
        self.deferred.add(sql, args, notify, required=required)
        self.writes += 1

    def notify(self, topic: str) -> None:
        """Notify the topic after the commit."""
        if self.ended:
            raise WorkError(USED_AFTER_ITS_END)
        self.topics.append(topic)

    def note(self, deferred: Deferred, count: int) -> None:
        """Note how many rows a deferred statement affected. Raises `Overtaken` if it had to affect one."""
        if not count and deferred.required:
            raise Overtaken
        if count and deferred.notify:
            self.topics.append(deferred.notify)

    def _check(self, sql: str) -> None:
        if self.ended:
            raise WorkError(USED_AFTER_ITS_END)
        if self.only_read and not only_reads(sql):
            raise WorkError(WROTE_IN_A_READ)


async def finish(tx: PostgresTransaction, connection: Connection) -> None:
    """Run the deferred statements in one round trip. Raises `Overtaken` if a required one affected no row."""
    if tx.deferred:
        counts = await execute_together(connection, [(deferred.sql, deferred.args) for deferred in tx.deferred])
        for deferred, count in zip(tx.deferred, counts, strict=True):
            tx.note(deferred, count)


async def drive(work: Work[T], tx: PostgresTransaction, connection: Connection) -> T:
    """Run the work on a connection. Raises `WorkError` if it awaits anything but its own statements."""
    steps = work(tx).__await__()
    try:
        statement = next(steps)
        while True:
            if type(statement) is not Statement:
                raise awaited_something_else(steps)
            try:
                answer = await execute_one(connection, statement.kind, statement.sql, statement.args)
                if not only_reads(statement.sql):
                    tx.writes += 1
            except Exception as error:  # noqa: BLE001 - raised in the work, where it awaits
                statement = steps.throw(error)
            else:
                statement = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        tx.ended = True
