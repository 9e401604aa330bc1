"""The retention of deliveries and their attempts."""

from __future__ import annotations

from paydesk.engine.webhooks.delivery import parking
from paydesk.platform.retention import Rule, delete
from paydesk.platform.storage.database import Transaction

# The attempts of deliveries that ended before $2, at most $3, then the deliveries without attempts. A delivery that is
# being sent again stays until its attempt is recorded.
PRUNE_ATTEMPTS = """DELETE FROM attempts WHERE seller_id = $1 AND (delivery_id, attempt) IN (WITH old AS MATERIALIZED (
    SELECT a.delivery_id, a.attempt FROM deliveries d
      JOIN attempts a ON a.seller_id = d.seller_id AND a.delivery_id = d.delivery_id
     WHERE d.seller_id = $1 AND d.ended_ms < $2 AND d.resend_ms IS NULL
     ORDER BY d.ended_ms LIMIT $3 FOR UPDATE OF d SKIP LOCKED) SELECT * FROM old)"""
PRUNE_DELIVERIES = delete(
    "deliveries",
    "delivery_id",
    "ended_ms",
    "o.resend_ms IS NULL"
    " AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.seller_id = $1 AND a.delivery_id = o.delivery_id)",
)


async def prune_deliveries(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Delete deliveries that ended before `before_ms`, each after its attempts."""
    attempts = await tx.run(PRUNE_ATTEMPTS, seller_id, before_ms, limit)
    if attempts == limit:
        return limit
    return attempts + await tx.run(PRUNE_DELIVERIES, seller_id, before_ms, limit - attempts)


RULES = (
    Rule(lambda _: parking.PAUSED_KEEP_DAYS, parking.exhaust_old),
    Rule(lambda settings: settings.deliveries_keep_days, prune_deliveries),
)
