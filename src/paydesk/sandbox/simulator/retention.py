"""Pruning of the simulator ledger: old payments, their movements, and request counters."""

from __future__ import annotations

from paydesk.core import ids
from paydesk.sandbox.simulator import store
from paydesk.sandbox.simulator.rules import OPERATIONS
from paydesk.storage.database import Transaction


async def prune(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Delete payments of orders created before `before_ms`, their movements, then requests; return how many rows."""
    before = ids.first_ulid(before_ms)
    pruned = await store.prune_payments(tx, seller_id, f"PAY{before}", limit)
    if pruned < limit:
        pruned += await store.prune_movements(tx, seller_id, f"PAY{before}", limit - pruned)
    for operation in OPERATIONS:
        if pruned < limit:
            pruned += await store.prune_requests(tx, seller_id, operation, before_ms, limit - pruned)
    return pruned
