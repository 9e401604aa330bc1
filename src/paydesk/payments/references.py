"""The acquirer's numbers of payments, each of which is one order's: claimed before the order is processed with it.

A number that comes a second time is evidence of one payment told of twice, so it processes nothing by itself.
"""

from __future__ import annotations

from paydesk.orders.order import Order
from paydesk.storage.database import Transaction

# The first who asks has it; whoever asks at the same time waits for the first one's commit.
CLAIM = """
INSERT INTO payment_references (seller_id, live, reference_id, order_id) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING"""

HOLDER = "SELECT order_id FROM payment_references WHERE seller_id = $1 AND live = $2 AND reference_id = $3"

RELEASE = """
DELETE FROM payment_references WHERE seller_id = $1 AND live = $2 AND reference_id = $3 AND order_id = $4"""


async def claim(tx: Transaction, order: Order, reference_id: str) -> bool:
    """Whether the number is this order's, from now on or already."""
    if await tx.run(CLAIM, order.seller_id, order.live, reference_id, order.order_id):
        return True
    row = await tx.one(HOLDER, order.seller_id, order.live, reference_id)
    return row is not None and row[0] == order.order_id


async def release(tx: Transaction, order: Order, reference_id: str) -> None:
    """The order is not processed with it, so another one may be."""
    await tx.run(RELEASE, order.seller_id, order.live, reference_id, order.order_id)
