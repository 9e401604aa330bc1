"""A database that counts the statements and the units of work that it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from typing import Any

from paydesk.platform.storage.database import Database, Row, T, Transaction, Work


class CountingTransaction:
    """The transaction behind it."""

    def __init__(self, tx: Transaction, counts: Counter[str]) -> None:
        self._tx, self._counts = tx, counts

    @property
    def writes(self) -> int:
        """As the transaction says."""
        return self._tx.writes

    def one(self, sql: str, *args: Any) -> Awaitable[Row | None]:
        """Count the statement."""
        self._counts["statements"] += 1
        return self._tx.one(sql, *args)

    def all(self, sql: str, *args: Any) -> Awaitable[list[Row]]:
        """Count the statement."""
        self._counts["statements"] += 1
        return self._tx.all(sql, *args)

    def run(self, sql: str, *args: Any) -> Awaitable[int]:
        """Count the statement, which writes."""
        self._counts["statements"] += 1
        self._counts["writing statements"] += 1
        return self._tx.run(sql, *args)

    def defer(self, sql: str, *args: Any, notify: str = "", required: bool = False) -> None:
        """Count the statement, which writes."""
        self._counts["statements"] += 1
        self._counts["writing statements"] += 1
        self._tx.defer(sql, *args, notify=notify, required=required)

    def notify(self, topic: str) -> None:
        """Notify after the commit."""
        self._tx.notify(topic)


class CountingDatabase:
    """The database behind it. `counts`: statements, writing statements, and units of work that write."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.name, self.signals, self.silence = database.name, database.signals, database.silence
        self.counts = Counter[str]()

    async def write(self, work: Work[T], **options: Any) -> T:
        """Count the unit of work, and its statements."""
        self.counts["writes"] += 1
        return await self._database.write(self._counted(work), **options)

    async def read(self, work: Work[T], **options: Any) -> T:
        """Count its statements."""
        return await self._database.read(self._counted(work), **options)

    async def check_writable(self) -> None:
        """Ask the database."""
        await self._database.check_writable()

    async def close(self) -> None:
        """Close it."""
        await self._database.close()

    def _counted(self, work: Work[T]) -> Work[T]:
        async def counted(tx: Transaction) -> T:
            return await work(CountingTransaction(tx, self.counts))

        return counted
