"""Two nodes on one PostgreSQL, which do concurrently what a single node does sequentially."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Unpack

from moved_time import advance
from paydesk.core.clock import Clock, SystemClock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import notifications_published, open_database
from paydesk.platform.storage.database import Database
from service import Service, running
from shared_objects import Chosen
from waiting import HANGS_SECONDS, until


@asynccontextmanager
async def two_nodes(
    database: Database,
    database_url: str,
    *,
    clock: Clock | None = None,
    settings: Settings | None = None,
    wakes_url: str | None = None,
    before_second: Callable[[], Awaitable[None]] | None = None,
    **chosen: Unpack[Chosen],
) -> AsyncIterator[tuple[Service, Service]]:
    """The same service by its two nodes, each with its workers. SQLite has one node: there it is the same twice.

    The second hears wakes, and sends them, by way of `wakes_url`; it starts after `before_second`.
    """
    clock = clock or SystemClock()
    async with (
        notifications_published(database_url, database),
        running(database, clock=clock, settings=settings, **chosen) as first,
    ):
        if database.name == "sqlite":
            yield first, first
            return
        if before_second is not None:
            await before_second()
        other = await open_database(database_url)
        try:
            async with (
                notifications_published(wakes_url or database_url, other),
                running(other, clock=clock, settings=settings, **chosen) as second,
            ):
                if wakes_url is None:
                    # What one node publishes before the other listens is lost.
                    await until(lambda: database.signals.remote_connected and other.signals.remote_connected)
                yield (
                    first,
                    replace(
                        first,
                        base_url=second.base_url,
                        database=other,
                        gauges=second.gauges,
                        shared_objects=second.shared_objects,
                    ),
                )
        finally:
            await other.close()


async def time_passes(nodes: tuple[Service, Service], condition: Callable[[], Awaitable[bool]]) -> None:
    """Move time by a second, again and again, until the condition holds.

    Before each move both databases answer, so that no statement takes long by the moved time.
    """
    until_seconds = time.monotonic() + HANGS_SECONDS
    while not await condition():
        assert time.monotonic() < until_seconds
        for node in nodes:
            await node.database.read(lambda tx: tx.one("SELECT 1"))
        advance(1)
        await asyncio.sleep(0.02)
