"""The retention of a table's rows after their end, and their deletion. Each domain declares its `RULES`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Transaction

DAY_MS = 86_400_000
Prune = Callable[[Transaction, int, int, int], Awaitable[int]]
"""Deletes rows of a seller that ended before an instant, at most a number of them, and returns how many."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The days that rows are kept after their end, and what deletes them."""

    keep_days: Callable[[Settings], float]
    prune: Prune


def delete(table: str, key: str, age: str, where: str = "TRUE") -> str:
    """Return the statement that deletes the oldest rows `o` of seller $1 with `age` below $2, at most $3.

    Rows that another transaction has locked are skipped, so that any number of nodes can prune at once.
    """
    columns = ", ".join(f"o.{column}" for column in key.split(", "))
    return f"""DELETE FROM {table} WHERE seller_id = $1 AND ({key}) IN (WITH old AS MATERIALIZED (
    SELECT {columns} FROM {table} o WHERE o.seller_id = $1 AND o.{age} < $2 AND {where}
     ORDER BY o.{age} LIMIT $3 FOR UPDATE OF o SKIP LOCKED) SELECT * FROM old)"""


def prune(table: str, key: str, age: str, where: str = "TRUE") -> Prune:
    """Return a function that deletes a table's old rows. `where` is a further condition on the row `o`."""
    return pruned_by(delete(table, key, age, where))


def pruned_by(sql: str) -> Prune:
    """Return a function that runs the statement: $1 is the seller, $2 the instant, $3 the number of rows."""

    async def run(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
        return await tx.run(sql, seller_id, before_ms, limit)

    return run
