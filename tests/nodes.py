"""Two nodes on one PostgreSQL: what a node does one after the other anyway, two of them do at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from paydesk.clock import Clock, SystemClock
from paydesk.storage.connect import open_database
from paydesk.storage.database import Database
from service import Service, running


@asynccontextmanager
async def two_nodes(
    database: Database, database_url: str, *, clock: Clock | None = None
) -> AsyncIterator[tuple[Service, Service]]:
    """The same service by its two nodes, each with its workers. SQLite has one node: there it is the same twice."""
    clock = clock or SystemClock()
    async with running(database, clock=clock) as first:
        if database.name == "sqlite":
            yield first, first
            return
        other = await open_database(database_url)
        try:
            async with running(other, clock=clock) as second:
                yield first, replace(first, base_url=second.base_url)
        finally:
            await other.close()
