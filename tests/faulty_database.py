"""A database that is away when a test says so."""

from __future__ import annotations

from typing import Any

from paydesk.platform.storage.database import Database, T, Work


class FaultyDatabase:
    """The database behind it, or `fault` for every unit of work while there is one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.name, self.signals, self.silence = database.name, database.signals, database.silence
        self.fault: Exception | None = None

    async def write(self, work: Work[T], **options: Any) -> T:
        """Run `work`, or raise the fault."""
        self._fail()
        return await self._database.write(work, **options)

    async def read(self, work: Work[T], **options: Any) -> T:
        """Run `work`, or raise the fault."""
        self._fail()
        return await self._database.read(work, **options)

    async def check_writable(self) -> None:
        """Ask the database."""
        await self._database.check_writable()

    async def close(self) -> None:
        """Close it."""
        await self._database.close()

    def _fail(self) -> None:
        if self.fault is not None:
            raise self.fault
