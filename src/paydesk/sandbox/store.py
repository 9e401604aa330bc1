"""SQL of the development endpoints: the demo inbox and the clock."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.storage.database import Transaction

ENTRIES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A received notification; `headers` is a JSON object, `signature_fault` a sentence if it is not valid."""

    received_ms: int
    signature_valid: int
    headers: str
    body: str
    signature_fault: str = ""


_ADD = """
INSERT INTO demo_inbox (entry_number, received_ms, signature_valid, headers, body, signature_fault)
SELECT COALESCE(MAX(entry_number), 0) + 1, CAST($1 AS bigint), CAST($2 AS smallint), $3, $4, $5
FROM demo_inbox WHERE 1 = 1
ON CONFLICT DO NOTHING RETURNING entry_number
"""
_TRIM = "DELETE FROM demo_inbox WHERE entry_number <= $1"
_COLUMNS = "received_ms, signature_valid, headers, body, signature_fault"
_ENTRIES = f"SELECT {_COLUMNS} FROM demo_inbox ORDER BY entry_number"
_NEWEST = f"SELECT {_COLUMNS} FROM demo_inbox ORDER BY entry_number DESC LIMIT $1"
_COUNT = "SELECT COUNT(*) FROM demo_inbox"
_EMPTY = "DELETE FROM demo_inbox"
_CLOCK = "SELECT offset_ms, frozen_ms FROM clock_settings WHERE name = 'clock'"
_SET_CLOCK = """
INSERT INTO clock_settings (name, offset_ms, frozen_ms) VALUES ('clock', $1, $2)
ON CONFLICT (name) DO UPDATE SET offset_ms = excluded.offset_ms, frozen_ms = excluded.frozen_ms
"""


async def add_entry(tx: Transaction, entry: InboxEntry) -> None:
    """Store the entry as the newest, and delete all but the newest 1,000."""
    row = None
    while row is None:
        # A concurrent transaction may have taken the number; the next one is free.
        row = await tx.one(
            _ADD, entry.received_ms, entry.signature_valid, entry.headers, entry.body, entry.signature_fault
        )
    await tx.run(_TRIM, row[0] - ENTRIES_MAX)


async def entries(tx: Transaction) -> list[InboxEntry]:
    """Return all entries, newest last."""
    return [InboxEntry(*row) for row in await tx.all(_ENTRIES)]


async def newest_entries(tx: Transaction, limit: int) -> tuple[list[InboxEntry], int]:
    """Return the newest entries, newest first, and the number of all entries."""
    count = await tx.one(_COUNT)
    assert count is not None, "a count is always a row"
    return [InboxEntry(*row) for row in await tx.all(_NEWEST, limit)], count[0]


async def empty(tx: Transaction) -> None:
    """Delete all entries."""
    await tx.run(_EMPTY)


async def clock(tx: Transaction) -> tuple[int, int | None]:
    """Return the clock's offset and, if it is frozen, its time, in milliseconds."""
    row = await tx.one(_CLOCK)
    return (row[0], row[1]) if row is not None else (0, None)


async def set_clock(tx: Transaction, offset_ms: int, frozen_ms: int | None) -> None:
    """Store the clock for the next start."""
    await tx.run(_SET_CLOCK, offset_ms, frozen_ms)
