"""The SQL of who has a payment in hand: the terminal that was granted, or whoever plays it for a test order."""

from __future__ import annotations

from paydesk.orders.order import Order
from paydesk.storage.database import Transaction

# at_terminal, before the grant -> granted: the point of no return. Cancel and expiry are guarded by the same column.
PERMIT_AUTHORIZATION = """
UPDATE orders SET permitted_ms = $3
 WHERE seller_id = $1 AND order_id = $2 AND status = 'at_terminal' AND payment_status_detail = 'at_terminal'
   AND permitted_ms IS NULL AND expires_ms > $3"""

# From now on the terminal is granted nothing, and nothing that it says decides.
DETACH = """
UPDATE orders SET detached_ms = $3
 WHERE seller_id = $1 AND order_id = $2 AND status = 'at_terminal'"""

REATTACH = """
UPDATE orders SET detached_ms = NULL
 WHERE seller_id = $1 AND order_id = $2 AND payment_status_detail = 'check_on_terminal'"""


async def permit_authorization(tx: Transaction, order: Order, now_ms: int) -> bool:
    """The terminal may charge from now on; False where something stands against it, or it may already."""
    return bool(await tx.run(PERMIT_AUTHORIZATION, order.seller_id, order.order_id, now_ms))


async def detach(tx: Transaction, order: Order, now_ms: int) -> None:
    """Take an order off its terminal."""
    await tx.run(DETACH, order.seller_id, order.order_id, now_ms)


async def reattach(tx: Transaction, order: Order) -> None:
    """Its terminal has the say again."""
    await tx.run(REATTACH, order.seller_id, order.order_id)
