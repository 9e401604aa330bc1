"""SQL of the development endpoints: the demo inbox and the clock."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from paydesk.platform.storage.database import Transaction

ENTRIES_MAX, ALL_ENTRIES_MAX = 1_000, 10_000
"""The newest entries of each application that are kept, and those of all."""
NUMBER_MAX = 10**15


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A received notification.

    `headers` is a JSON object, `signature_fault` a sentence if it is not valid, `checks` the JSON of
    `inbox_checks.Checks`, empty in entries of earlier versions. `action` and `order_id` are for filters, and so is
    `application_id`, which the body names: that of the order counts, if there is the order.
    """

    received_ms: int
    signature_valid: int
    headers: str
    body: str
    signature_fault: str = ""
    action: str = ""
    order_id: str = ""
    checks: str = ""
    application_id: int = 0


@dataclass(frozen=True, slots=True)
class InboxFilter:
    """Which entries are chosen: with this action, order id, validity and application.

    An empty, None or 0 value means any.
    """

    action: str = ""
    order_id: str = ""
    signature_valid: int | None = None
    application_id: int = 0

    @property
    def arguments(self) -> tuple[str, str, int, int]:
        """The arguments of the filter in a statement."""
        is_valid = -1 if self.signature_valid is None else self.signature_valid
        return self.action, self.order_id, is_valid, self.application_id


_ADD = """
INSERT INTO demo_inbox
       (entry_number, received_ms, signature_valid, headers, body, signature_fault, action, order_id, checks,
        application_id)
SELECT COALESCE(MAX(entry_number), 0) + 1, CAST($1 AS bigint), CAST($2 AS smallint), $3, $4, $5, $6, $7, $8,
       COALESCE((SELECT o.application_id FROM orders o
                  WHERE o.live IN (0, 1) AND o.order_id = $7 AND o.seller_id > 0), CAST($9 AS bigint))
FROM demo_inbox WHERE 1 = 1
ON CONFLICT DO NOTHING RETURNING entry_number, application_id
"""
_TRIM = """
DELETE FROM demo_inbox
 WHERE entry_number <= $1
    OR (application_id = $2 AND entry_number <= (SELECT entry_number FROM demo_inbox WHERE application_id = $2
                                                  ORDER BY entry_number DESC LIMIT 1 OFFSET $3))
"""
_COLUMNS = "received_ms, signature_valid, headers, body, signature_fault, action, order_id, checks"
_CHOSEN = """($1 = '' OR action = $1) AND ($2 = '' OR order_id = $2) AND ($3 < 0 OR signature_valid = $3)
   AND CAST($4 AS bigint) = 0"""
_ENTRIES = f"SELECT {_COLUMNS} FROM demo_inbox ORDER BY entry_number DESC LIMIT $1"
_PAGE = f"""
SELECT entry_number, {_COLUMNS} FROM demo_inbox
 WHERE {_CHOSEN} AND entry_number < $5 ORDER BY entry_number DESC LIMIT $6
"""
# By its index: a test beside many others waits for its own.
_PAGE_OF_APPLICATION = _PAGE.replace("CAST($4 AS bigint) = 0", "application_id = $4")
_COUNT = f"SELECT COUNT(*) FROM demo_inbox WHERE {_CHOSEN}"
_ACTIONS = "SELECT DISTINCT action FROM demo_inbox WHERE action <> '' ORDER BY action LIMIT $1"
SUBSCRIPTIONS_OF = "SELECT subscription_id FROM subscriptions WHERE application_id = $1 AND deleted_ms IS NULL"
_EMPTY = "DELETE FROM demo_inbox"
_SET_CLOCK = """
INSERT INTO clock_settings (name, offset_ms, frozen_ms) VALUES ('clock', $1, $2)
ON CONFLICT (name) DO UPDATE SET offset_ms = excluded.offset_ms, frozen_ms = excluded.frozen_ms
"""


async def add_entry(tx: Transaction, entry: InboxEntry) -> None:
    """Store the entry as the newest, and delete all but the newest of its application and of all."""
    row = None
    while row is None:
        # A concurrent transaction may have taken the number; the next one is free.
        row = await tx.one(_ADD, *astuple(entry))
    number, application_id = row
    await tx.run(_TRIM, number - ALL_ENTRIES_MAX, application_id, ENTRIES_MAX)


async def entries(tx: Transaction, limit: int = ENTRIES_MAX) -> list[InboxEntry]:
    """Return the newest entries, newest last."""
    return [InboxEntry(*row) for row in await tx.all(_ENTRIES, limit)][::-1]


async def page_of_entries(
    tx: Transaction, chosen: InboxFilter, before: int, limit: int
) -> list[tuple[int, InboxEntry]]:
    """Return the newest entries with numbers below `before`, newest first, each with its number."""
    statement = _PAGE_OF_APPLICATION if chosen.application_id else _PAGE
    rows = await tx.all(statement, *chosen.arguments, before, limit)
    return [(number, InboxEntry(*entry)) for number, *entry in rows]


async def count_entries(tx: Transaction, chosen: InboxFilter) -> int:
    """Return the number of entries of any application."""
    row = await tx.one(_COUNT, *chosen.arguments)
    assert row is not None, "a count is always a row"
    return int(row[0])


async def actions(tx: Transaction, limit: int) -> list[str]:
    """Return the actions that entries have, in alphabetical order."""
    return [row[0] for row in await tx.all(_ACTIONS, limit)]


async def subscriptions_of(tx: Transaction, application_id: int) -> list[str]:
    """Return the ids of the application's subscriptions."""
    return [row[0] for row in await tx.all(SUBSCRIPTIONS_OF, application_id)]


async def empty(tx: Transaction) -> None:
    """Delete all entries."""
    await tx.run(_EMPTY)


async def set_clock(tx: Transaction, offset_ms: int, frozen_ms: int | None) -> None:
    """Store the clock for the next start."""
    await tx.run(_SET_CLOCK, offset_ms, frozen_ms)
