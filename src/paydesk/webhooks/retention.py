"""Retention of ended deliveries and their attempts."""

from __future__ import annotations

from paydesk.storage.database import Transaction

# Deletes up to $3 attempts of deliveries that ended before $2.
PRUNE_ATTEMPTS = """DELETE FROM attempts WHERE seller_id = $1 AND (delivery_id, attempt) IN (WITH old AS MATERIALIZED (
    SELECT a.delivery_id, a.attempt FROM deliveries d
      JOIN attempts a ON a.seller_id = d.seller_id AND a.delivery_id = d.delivery_id
     WHERE d.seller_id = $1 AND d.ended_ms < $2
     ORDER BY d.ended_ms LIMIT $3 FOR UPDATE OF d SKIP LOCKED) SELECT * FROM old)"""

# Deletes up to $3 deliveries without attempts that ended before $2.
PRUNE_DELIVERIES = """DELETE FROM deliveries WHERE seller_id = $1 AND delivery_id IN (WITH old AS MATERIALIZED (
    SELECT d.delivery_id FROM deliveries d
     WHERE d.seller_id = $1 AND d.ended_ms < $2
       AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.seller_id = $1 AND a.delivery_id = d.delivery_id)
     ORDER BY d.ended_ms LIMIT $3 FOR UPDATE OF d SKIP LOCKED) SELECT * FROM old)"""


async def prune_deliveries(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Delete up to `limit` rows of deliveries that ended before `before_ms`, attempts first; return how many."""
    attempts = await tx.run(PRUNE_ATTEMPTS, seller_id, before_ms, limit)
    if attempts == limit:
        return limit
    return attempts + await tx.run(PRUNE_DELIVERIES, seller_id, before_ms, limit - attempts)
