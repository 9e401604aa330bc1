"""What of terminals is forgotten: revoked tokens, and earlier starts. Leases and results stay with their orders."""

from __future__ import annotations

from paydesk.storage.database import Transaction

# Out: device tokens that were revoked before $2 are gone, at most $3. They were good for nothing after a week.
PRUNE_DEVICE_TOKENS = """DELETE FROM device_tokens WHERE seller_id = $1 AND digest IN (WITH old AS MATERIALIZED (
    SELECT digest FROM device_tokens WHERE seller_id = $1 AND revoked_ms < $2
     ORDER BY revoked_ms LIMIT $3 FOR UPDATE SKIP LOCKED) SELECT * FROM old)"""

# Out: sessions that another took over before $2 are gone, at most $3: until then their start is told that it is stale.
# The sum keeps SQLite from looking for the other one by its age, through all that the seller's terminals ever began.
PRUNE_SESSIONS = """DELETE FROM terminal_sessions
 WHERE seller_id = $1 AND (terminal_id, boot_id) IN (WITH old AS MATERIALIZED (
    SELECT s.terminal_id, s.boot_id FROM terminal_sessions s
     WHERE s.seller_id = $1 AND s.created_ms < $2
       AND EXISTS (SELECT 1 FROM terminal_sessions n WHERE n.seller_id = $1 AND n.terminal_id = s.terminal_id
                      AND n.session > s.session AND n.created_ms + 0 < $2)
     ORDER BY s.created_ms LIMIT $3 FOR UPDATE OF s SKIP LOCKED) SELECT * FROM old)"""


async def prune_device_tokens(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Forget device tokens that were revoked before; how many."""
    return await tx.run(PRUNE_DEVICE_TOKENS, seller_id, before_ms, limit)


async def prune_sessions(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Forget sessions that were taken over before; how many."""
    return await tx.run(PRUNE_SESSIONS, seller_id, before_ms, limit)
