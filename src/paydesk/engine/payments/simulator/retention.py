"""The rule of retention of the simulator's ledger."""

from __future__ import annotations

from paydesk.core import ids
from paydesk.engine.payments.simulator.faults import OPERATIONS
from paydesk.platform.retention import Rule, delete
from paydesk.platform.storage.database import Transaction

KEEP_DAYS = 180
"""No request about an order reaches the simulated acquirer after that time."""

# Payments with an id below $2 (ids begin with their orders' time), then movements of deleted payments.
PRUNE_PAYMENTS = delete("simulator_payments", "payment_id", "payment_id")
PRUNE_MOVEMENTS = tuple(
    delete(
        table,
        "movement_key",
        "payment_id",
        "NOT EXISTS (SELECT 1 FROM simulator_payments p WHERE p.seller_id = $1 AND p.payment_id = o.payment_id)",
    )
    for table in ("simulator_movements", "simulator_confirmation_movements")
)
# Requests of operation $4 from before $2, at most $3, but for the newest: its ordinal is counted on from.
PRUNE_REQUESTS = """DELETE FROM simulator_requests
 WHERE seller_id = $1 AND operation = $4 AND created_ms < $2 AND request_key IN (WITH old AS MATERIALIZED (
    SELECT o.request_key FROM simulator_requests o
     WHERE o.seller_id = $1 AND o.operation = $4
       AND o.ordinal < (SELECT MAX(n.ordinal) FROM simulator_requests n WHERE n.seller_id = $1 AND n.operation = $4)
     ORDER BY o.ordinal LIMIT $3 FOR UPDATE OF o SKIP LOCKED) SELECT * FROM old)"""
PRUNE_CONFIRMATION_REQUESTS = PRUNE_REQUESTS.replace("simulator_requests", "simulator_confirmation_requests")


async def _prune(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Delete payments of orders created before `before_ms`, then their movements, then earlier requests."""
    before = f"PAY{ids.first_ulid(before_ms)}"
    pruned = await tx.run(PRUNE_PAYMENTS, seller_id, before, limit)
    for statement in PRUNE_MOVEMENTS:
        if pruned < limit:
            pruned += await tx.run(statement, seller_id, before, limit - pruned)
    for operation in OPERATIONS:
        statement = PRUNE_CONFIRMATION_REQUESTS if operation == "confirmation" else PRUNE_REQUESTS
        if pruned < limit:
            pruned += await tx.run(statement, seller_id, before_ms, limit - pruned, operation)
    return pruned


RULES = (Rule(lambda _: KEEP_DAYS, _prune),)
