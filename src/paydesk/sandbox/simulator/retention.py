"""What the simulated acquirer's book forgets: payments of long ago, with what went back of them, and who asked."""

from __future__ import annotations

from paydesk.core import ids
from paydesk.sandbox.simulator import store
from paydesk.sandbox.simulator.rules import OPERATIONS
from paydesk.storage.database import Transaction


async def prune(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Forget payments of orders that were made before, then their movements, then requests; how many rows."""
    before = ids.first_ulid(before_ms)
    pruned = await store.prune_payments(tx, seller_id, f"PAY{before}", limit)
    if pruned < limit:
        pruned += await store.prune_movements(tx, seller_id, f"PAY{before}", limit - pruned)
    for operation in OPERATIONS:
        if pruned < limit:
            pruned += await store.prune_asks(tx, seller_id, operation, before_ms, limit - pruned)
    return pruned
