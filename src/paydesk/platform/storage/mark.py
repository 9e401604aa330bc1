"""The mark of a database, which is set once and never changed: whether it is for development or for production.

`paydesk dev` sets `development`; every other command that can be the first to open a database sets `production`.
"""

from __future__ import annotations

from typing import Final, Literal

from paydesk.platform.storage.database import Database, Transaction

Kind = Literal["development", "production"]

FIND = "SELECT kind FROM database_mark WHERE name = 'kind'"
SET = "INSERT INTO database_mark (name, kind, marked_ms) VALUES ('kind', $1, $2) ON CONFLICT DO NOTHING"
MOVED_CLOCK = "SELECT offset_ms, frozen_ms FROM clock_settings WHERE name = 'clock'"

# No form that both databases share.
_HAS_TABLE: Final = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'database_mark'",
    "postgres": "SELECT 1 WHERE to_regclass('database_mark') IS NOT NULL",
}


async def find(database: Database) -> Kind | None:
    """Return the mark, or None for a database without one or without tables."""

    async def work(tx: Transaction) -> Kind | None:
        return await _find(tx) if await tx.one(_HAS_TABLE[database.name]) else None

    return await database.read(work)


async def find_or_set(database: Database, kind: Kind, now_ms: int) -> Kind:
    """Return the mark, after setting it to `kind` if there is none. Concurrent commands get the same mark."""

    async def work(tx: Transaction) -> Kind:
        await tx.run(SET, kind, now_ms)
        found = await _find(tx)
        assert found is not None, "the mark was inserted above or earlier"
        return found

    # Not written to if it has a mark, so that a read-only database is reported as read-only.
    found = await find(database)
    return found if found is not None else await database.write(work)


async def moved_clock(tx: Transaction) -> tuple[int, int | None]:
    """Return what `paydesk dev` has moved the clock by, and the time where it has stopped it, in milliseconds."""
    row = await tx.one(MOVED_CLOCK)
    return (row[0], row[1]) if row else (0, None)


async def _find(tx: Transaction) -> Kind | None:
    row = await tx.one(FIND)
    return row[0] if row else None
