"""A database that remembers every statement it was asked, each with the arguments it was asked with last."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from paydesk.platform.storage.database import Database, Row, T, Transaction, Work


class RecordingTransaction:
    """The transaction behind it."""

    def __init__(self, tx: Transaction, database: RecordingDatabase) -> None:
        self._tx, self._database = tx, database

    def _record(self, sql: str, args: tuple[Any, ...]) -> None:
        self._database.asked[sql] = args
        self._database.sent += 1

    @property
    def writes(self) -> int:
        """As the transaction says."""
        return self._tx.writes

    def one(self, sql: str, *args: Any) -> Awaitable[Row | None]:
        """The only row, or None."""
        self._record(sql, args)
        return self._tx.one(sql, *args)

    def all(self, sql: str, *args: Any) -> Awaitable[list[Row]]:
        """All rows."""
        self._record(sql, args)
        return self._tx.all(sql, *args)

    def run(self, sql: str, *args: Any) -> Awaitable[int]:
        """How many rows it touched."""
        self._record(sql, args)
        return self._tx.run(sql, *args)

    def defer(self, sql: str, *args: Any, notify: str = "", required: bool = False) -> None:
        """At the end."""
        self._record(sql, args)
        self._tx.defer(sql, *args, notify=notify, required=required)

    def notify(self, topic: str) -> None:
        """After the commit."""
        self._tx.notify(topic)


class RecordingDatabase:
    """The database behind it.

    `asked`: the statements, in the order in which they were first asked. `sent`: how many, with repetitions.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.name, self.signals, self.silence = database.name, database.signals, database.silence
        self.asked: dict[str, tuple[Any, ...]] = {}
        self.sent = 0

    async def write(self, work: Work[T], **options: Any) -> T:
        """Run `work`."""
        return await self._database.write(self._recorded(work), **options)

    async def read(self, work: Work[T], **options: Any) -> T:
        """Run `work`."""
        return await self._database.read(self._recorded(work), **options)

    async def check_writable(self) -> None:
        """Ask the database."""
        await self._database.check_writable()

    async def close(self) -> None:
        """Close it."""
        await self._database.close()

    def _recorded(self, work: Work[T]) -> Work[T]:
        async def recorded(tx: Transaction) -> T:
            return await work(RecordingTransaction(tx, self))

        return recorded
