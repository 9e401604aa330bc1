"""SQL of development: the demo inbox and the clock's row."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.storage.database import Transaction

ENTRIES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """One notification as the demo receiver got it; `headers` is a JSON object."""

    received_ms: int
    signature_valid: int
    headers: str
    body: str


@dataclass(frozen=True, slots=True)
class Signer:
    """A subscription, as far as its secret is derived from it, and where it sends to."""

    subscription_id: str
    secret_generation: int
    key_version: int
    url: str


_ADD = """
INSERT INTO demo_inbox (entry_number, received_ms, signature_valid, headers, body)
SELECT COALESCE(MAX(entry_number), 0) + 1, CAST($1 AS bigint), CAST($2 AS smallint), $3, $4 FROM demo_inbox WHERE 1 = 1
ON CONFLICT DO NOTHING RETURNING entry_number
"""
_TRIM = "DELETE FROM demo_inbox WHERE entry_number <= $1"
_ENTRIES = "SELECT received_ms, signature_valid, headers, body FROM demo_inbox ORDER BY entry_number"
_EMPTY = "DELETE FROM demo_inbox"
_SIGNERS = """
SELECT subscription_id, secret_generation, key_version, url FROM subscriptions WHERE deleted_ms IS NULL
"""
_CLOCK = "SELECT offset_ms, frozen_ms FROM clock_settings WHERE name = 'clock'"
_FIRST_CLOCK = (
    "INSERT INTO clock_settings (name, offset_ms, frozen_ms) VALUES ('clock', 0, NULL) ON CONFLICT DO NOTHING"
)
_SET_CLOCK = "UPDATE clock_settings SET offset_ms = $1, frozen_ms = $2 WHERE name = 'clock'"


async def add_entry(tx: Transaction, entry: InboxEntry) -> None:
    """Keep the entry as the newest, and the newest 1,000 alone."""
    row = None
    while row is None:
        # Another may have taken the number in the same moment; then the next one is free.
        row = await tx.one(_ADD, entry.received_ms, entry.signature_valid, entry.headers, entry.body)
    await tx.run(_TRIM, row[0] - ENTRIES_MAX)


async def entries(tx: Transaction) -> list[InboxEntry]:
    """All that is kept, newest last."""
    return [InboxEntry(*row) for row in await tx.all(_ENTRIES)]


async def empty(tx: Transaction) -> None:
    """Keep nothing."""
    await tx.run(_EMPTY)


async def signers(tx: Transaction) -> list[Signer]:
    """Every subscription there is."""
    return [Signer(*row) for row in await tx.all(_SIGNERS)]


async def clock(tx: Transaction) -> tuple[int, int | None]:
    """The clock's offset and, where it stands still, its instant, in milliseconds."""
    row = await tx.one(_CLOCK)
    return (row[0], row[1]) if row is not None else (0, None)


async def set_clock(tx: Transaction, offset_ms: int, frozen_ms: int | None) -> None:
    """From the next start on the clock begins there."""
    await tx.run(_FIRST_CLOCK)
    await tx.run(_SET_CLOCK, offset_ms, frozen_ms)
