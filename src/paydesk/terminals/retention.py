"""Retention of revoked device tokens and ended sessions. Leases and results are kept as long as their orders."""

from __future__ import annotations

from paydesk.storage.database import Transaction

# Deletes up to $3 device tokens that were revoked before $2. A revoked token is accepted for 7 days at most.
PRUNE_DEVICE_TOKENS = """DELETE FROM device_tokens WHERE seller_id = $1 AND digest IN (WITH old AS MATERIALIZED (
    SELECT digest FROM device_tokens WHERE seller_id = $1 AND revoked_ms < $2
     ORDER BY revoked_ms LIMIT $3 FOR UPDATE SKIP LOCKED) SELECT * FROM old)"""

# Deletes up to $3 sessions that were replaced by a newer one before $2. Until then their calls get `stale_session`.
# `created_ms + 0` keeps SQLite from using the index on created_ms, which would scan all sessions of the seller.
PRUNE_SESSIONS = """DELETE FROM terminal_sessions
 WHERE seller_id = $1 AND (terminal_id, boot_id) IN (WITH old AS MATERIALIZED (
    SELECT s.terminal_id, s.boot_id FROM terminal_sessions s
     WHERE s.seller_id = $1 AND s.created_ms < $2
       AND EXISTS (SELECT 1 FROM terminal_sessions n WHERE n.seller_id = $1 AND n.terminal_id = s.terminal_id
                      AND n.session > s.session AND n.created_ms + 0 < $2)
     ORDER BY s.created_ms LIMIT $3 FOR UPDATE OF s SKIP LOCKED) SELECT * FROM old)"""


async def prune_device_tokens(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Delete up to `limit` device tokens revoked before `before_ms`; return how many."""
    return await tx.run(PRUNE_DEVICE_TOKENS, seller_id, before_ms, limit)


async def prune_sessions(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Delete up to `limit` sessions replaced before `before_ms`; return how many."""
    return await tx.run(PRUNE_SESSIONS, seller_id, before_ms, limit)
