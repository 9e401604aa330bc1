"""The mark of a database: whether it is for development or for production. It is set once and never changed.

`paydesk dev` sets the one, every other command that may be the first to open a database the other.
"""

from __future__ import annotations

from typing import Final, Literal

from paydesk.storage.database import Database, Transaction

Kind = Literal["development", "production"]

FIND = "SELECT kind FROM database_mark WHERE name = 'kind'"
SET = "INSERT INTO database_mark (name, kind, marked_ms) VALUES ('kind', $1, $2) ON CONFLICT DO NOTHING"

# What has no shared form.
_HAS_TABLE: Final = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'database_mark'",
    "postgres": "SELECT 1 WHERE to_regclass('database_mark') IS NOT NULL",
}


async def find(database: Database) -> Kind | None:
    """Return the mark, or None for a database without one, also before the migration that brings the table."""

    async def work(tx: Transaction) -> Kind | None:
        return await _find(tx) if await tx.one(_HAS_TABLE[database.name]) else None

    return await database.read(work)


async def find_or_set(database: Database, kind: Kind, now_ms: int) -> Kind:
    """Return the mark, after setting it to `kind` where there is none. Of two commands at once both get the same."""

    async def work(tx: Transaction) -> Kind:
        await tx.run(SET, kind, now_ms)
        found = await _find(tx)
        assert found is not None, "it is set above, or was before"
        return found

    # A marked database is not written to, so that a read-only one is refused for what it is.
    found = await find(database)
    return found if found is not None else await database.write(work)


async def _find(tx: Transaction) -> Kind | None:
    row = await tx.one(FIND)
    return row[0] if row else None
