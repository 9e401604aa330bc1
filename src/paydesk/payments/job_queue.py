"""The SQL of what workers take up: open rows that are due, claimed by one node at a time.

The schedule goes by the service's time, claims go by the machine's, which nobody moves. One that is left runs out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from paydesk.storage.database import Transaction

LOOKED_AT_MAX = 200

T = TypeVar("T")


def statements(table: str, key: str, columns: str, is_open: str) -> tuple[str, str, str]:
    """Whose rows are due, when the next one is, and how a seller's are claimed: of a table with rows that are open."""
    return (
        # $1 is the time of the schedule, $2 that of the claims.
        f"""
SELECT seller_id FROM {table} WHERE {is_open} AND next_ms <= $1 AND claimed_until_ms <= $2
 ORDER BY next_ms LIMIT $3""",
        f"SELECT min(next_ms) FROM {table} WHERE {is_open} AND next_ms > $1",
        f"""
UPDATE {table} SET claimed_until_ms = $4, attempts = attempts + 1
 WHERE seller_id = $1 AND {key} IN (WITH chosen AS MATERIALIZED (
       SELECT {key} FROM {table}
        WHERE seller_id = $1 AND {is_open} AND next_ms <= $2 AND claimed_until_ms <= $3
        ORDER BY next_ms LIMIT $5 FOR UPDATE SKIP LOCKED) SELECT * FROM chosen)
RETURNING {columns}""",
    )


@dataclass(frozen=True, slots=True)
class JobQueue(Generic[T]):
    """What of a table is due, by its three `statements`; `row` is made of the columns that a claim returns."""

    sellers_due: str
    next_due: str
    claim_due: str
    row: Callable[..., T]

    async def sellers(self, tx: Transaction, now_ms: int, wall_ms: int) -> list[int]:
        """The sellers with something that is due and nobody's, who waits longest first."""
        rows = await tx.all(self.sellers_due, now_ms, wall_ms, LOOKED_AT_MAX)
        return list(dict.fromkeys(row[0] for row in rows))

    async def next_ms(self, tx: Transaction, now_ms: int) -> int | None:
        """When the next one is due."""
        row = await tx.one(self.next_due, now_ms)
        return row[0] if row else None

    async def claim(
        self, tx: Transaction, seller_id: int, *, now_ms: int, wall_ms: int, until_ms: int, limit: int
    ) -> list[T]:
        """Take up to `limit` due ones of the seller until `until_ms`, each for one attempt."""
        rows = await tx.all(self.claim_due, seller_id, now_ms, wall_ms, until_ms, limit)
        return [self.row(*row) for row in rows]
