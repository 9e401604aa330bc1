"""PostgreSQL's knowledge of tables that are new: until it has looked into one, one row by its key seems as dear as all.

Its own worker looks once a minute at the soonest. Until then it plans by defaults, under which all keys of a seller
count as a row or two; a plan that is kept then goes through thousands.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from paydesk.storage.database import Transaction

if TYPE_CHECKING:
    from paydesk.core.worker import WorkerContext

LOOK_SECONDS = 2.0
BYTES_MIN = 4 * 8192
"""Enough rows for one to be told from all."""

UNKNOWN = """
SELECT CAST(c.relname AS text) FROM pg_class c
 WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind = 'r' AND c.reltuples < 0
   AND pg_relation_size(c.oid) >= $1 AND pg_get_userbyid(c.relowner) = current_user
 ORDER BY c.relname"""


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Have PostgreSQL look into what it does not know yet, until told to stop. SQLite plans without statistics."""
    if context.database.name == "sqlite":
        await stop.wait()
    while not stop.is_set():
        await step(context)
        with context.database.signals.subscribe("stop") as waiter:
            await waiter.wait(LOOK_SECONDS)


async def step(context: WorkerContext) -> int:
    """Look once; how many tables were new."""

    async def unknown(tx: Transaction) -> list[str]:
        return [row[0] for row in await tx.all(UNKNOWN, BYTES_MIN)]

    tables = await context.database.read(unknown)
    for table in tables:
        await context.database.write(lambda tx, table=table: tx.run(f'ANALYZE "{table}"'))  # type: ignore[misc]
    return len(tables)
