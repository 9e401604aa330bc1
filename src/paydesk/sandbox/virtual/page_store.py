"""Where a virtual terminal is, for its page, and for which application the page creates orders."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class Place:
    """The seller and the point of sale of a terminal."""

    seller_id: int
    name: str
    """That of the point of sale."""
    country: str
    currency: str


# Terminal ids are unique over all sellers.
FIND_PLACE = """SELECT t.seller_id, p.name, s.country, s.currency
    FROM terminal_owners o
    JOIN terminals t ON t.seller_id = o.seller_id AND t.terminal_id = o.terminal_id
    JOIN pos p ON p.seller_id = t.seller_id AND p.pos_id = t.pos_id
    JOIN sellers s ON s.seller_id = t.seller_id
    WHERE o.terminal_id = $1"""

# The application that the seller authorized first, of those that may create orders.
FIND_APPLICATION = """SELECT a.application_id FROM authorizations a
    JOIN applications p ON p.application_id = a.application_id
    JOIN sellers s ON s.seller_id = a.seller_id
    WHERE a.seller_id = $1 AND a.withdrawn_ms IS NULL AND p.suspended_ms IS NULL AND s.suspended_ms IS NULL
      AND ' ' || a.scope || ' ' LIKE '% write %' AND ' ' || p.scopes || ' ' LIKE '% write %'
    ORDER BY a.created_ms, a.authorization_id LIMIT 1"""


async def find_place(tx: Transaction, terminal_id: str) -> Place | None:
    """Return where the terminal is, or None if it was removed."""
    row = await tx.one(FIND_PLACE, terminal_id)
    return Place(*row) if row else None


async def find_application(tx: Transaction, seller_id: int) -> int | None:
    """Return an application that may create orders for the seller, or None."""
    row = await tx.one(FIND_APPLICATION, seller_id)
    return row[0] if row else None
