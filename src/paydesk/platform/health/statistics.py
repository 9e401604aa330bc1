"""A worker that runs ANALYZE on new tables of PostgreSQL.

Autovacuum does so after a minute at the earliest. Until then the planner assumes a row or two for each seller, and a
cached plan can read thousands of rows.
"""

from __future__ import annotations

import asyncio

from paydesk.platform.storage.database import Transaction
from paydesk.platform.worker import WorkerContext

POLL_INTERVAL_SECONDS = 2.0
BYTES_MIN = 4 * 8192
"""Smaller tables need no statistics."""

UNANALYZED = """
SELECT CAST(c.relname AS text) FROM pg_class c
 WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind = 'r' AND c.reltuples < 0
   AND pg_relation_size(c.oid) >= $1 AND pg_get_userbyid(c.relowner) = current_user
 ORDER BY c.relname"""


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Analyze new tables until `stop` is set. SQLite plans without statistics."""
    if context.database.name == "sqlite":
        await stop.wait()
    while not stop.is_set():
        with context.database.signals.subscribe("stop") as waiter:
            await step(context)
            await waiter.wait(POLL_INTERVAL_SECONDS)


async def step(context: WorkerContext) -> int:
    """Analyze the tables that have no statistics and return how many there were."""

    async def unanalyzed(tx: Transaction) -> list[str]:
        return [row[0] for row in await tx.all(UNANALYZED, BYTES_MIN)]

    tables = await context.database.read(unanalyzed)
    for table in tables:
        await context.database.write(lambda tx, table=table: tx.run(f'ANALYZE "{table}"'))  # type: ignore[misc]
    return len(tables)
