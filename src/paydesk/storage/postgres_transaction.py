"""The transaction of PostgreSQL: what a unit of work awaits is a request to the driver, which has the connection."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from paydesk.storage.database import Row, Work, WorkError
from paydesk.storage.postgres_connections import Connection
from paydesk.storage.postgres_sets import ask_alone, ask_at_once
from paydesk.storage.statements import only_reads
from paydesk.storage.work import USED_AFTER_ITS_END, WROTE_IN_A_READ, awaited_something_else

T = TypeVar("T")


class Statement:
    """What a work awaits: it is handed to the driver, which sends its answer back into the work."""

    __slots__ = ("args", "kind", "sql")

    def __init__(self, kind: str, sql: str, args: tuple[Any, ...]) -> None:
        self.kind = kind
        self.sql = sql
        self.args = args

    def __await__(self) -> Generator[Statement, Any, Any]:
        return (yield self)


@dataclass(frozen=True, slots=True)
class Last:
    """A statement that runs at the end; `notify` is whom to notify if it conflict_keys rows."""

    sql: str
    args: tuple[Any, ...]
    notify: str


class PostgresTransaction:
    """Statements as requests to the driver."""

    __slots__ = ("ended", "last", "only_read", "topics", "writes")

    def __init__(self, *, only_read: bool = False) -> None:
        self.ended = False
        self.only_read = only_read
        self.writes = 0
        self.topics: list[str] = []
        self.last: list[Last] = []

    def one(self, sql: str, *args: Any) -> Awaitable[Row | None]:
        """The only row, or None."""
        self._check(sql)
        return Statement("one", sql, args)

    def all(self, sql: str, *args: Any) -> Awaitable[list[Row]]:
        """All rows."""
        self._check(sql)
        return Statement("all", sql, args)

    def run(self, sql: str, *args: Any) -> Awaitable[int]:
        """How many rows the statement touched."""
        self._check(sql)
        return Statement("run", sql, args)

    def defer(self, sql: str, *args: Any, notify: str = "") -> None:
        """Run the statement before the commit."""
        self._check(sql)
        self.writes += 1
        self.last.append(Last(sql, args, notify))

    def notify(self, topic: str) -> None:
        """Remember whom to notify after the commit."""
        if self.ended:
            raise WorkError(USED_AFTER_ITS_END)
        self.topics.append(topic)

    def _check(self, sql: str) -> None:
        if self.ended:
            raise WorkError(USED_AFTER_ITS_END)
        if self.only_read and not only_reads(sql):
            raise WorkError(WROTE_IN_A_READ)


async def finish(tx: PostgresTransaction, connection: Connection) -> None:
    """Run what the work left for the end, in one round trip."""
    if tx.last:
        counts = await ask_at_once(connection, [(last.sql, last.args) for last in tx.last])
        tx.topics += [last.notify for last, count in zip(tx.last, counts, strict=True) if last.notify and count]


async def drive(work: Work[T], tx: PostgresTransaction, connection: Connection) -> T:
    """Step through the work: whatever it awaits must be one of its own statements."""
    steps = work(tx).__await__()
    try:
        asked = next(steps)
        while True:
            if type(asked) is not Statement:
                raise awaited_something_else(steps)
            try:
                answer = await ask_alone(connection, asked.kind, asked.sql, asked.args)
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
