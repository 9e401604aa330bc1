"""Two nodes on one PostgreSQL, which do concurrently what a single node does sequentially."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Unpack

from paydesk.core.clock import Clock, SystemClock
from paydesk.settings import Settings
from paydesk.storage.connect import notifications_published, open_database
from paydesk.storage.database import Database
from service import Service, running
from shared_objects import Chosen
from waiting import until


@asynccontextmanager
async def two_nodes(
    database: Database,
    database_url: str,
    *,
    clock: Clock | None = None,
    settings: Settings | None = None,
    wakes_url: str | None = None,
    **chosen: Unpack[Chosen],
) -> AsyncIterator[tuple[Service, Service]]:
    """The same service by its two nodes, each with its workers. SQLite has one node: there it is the same twice.

    The second hears wakes, and sends them, by way of `wakes_url`.
    """
    clock = clock or SystemClock()
    async with (
        notifications_published(database_url, database),
        running(database, clock=clock, settings=settings, **chosen) as first,
    ):
        if database.name == "sqlite":
            yield first, first
            return
        other = await open_database(database_url)
        try:
            async with (
                notifications_published(wakes_url or database_url, other),
                running(other, clock=clock, settings=settings, **chosen) as second,
            ):
                if wakes_url is None:
                    # What one node publishes before the other listens is lost.
                    await until(lambda: database.signals.remote_connected and other.signals.remote_connected)
                yield first, replace(first, base_url=second.base_url, database=other)
        finally:
            await other.close()
