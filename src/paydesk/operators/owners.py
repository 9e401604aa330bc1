"""Whose an order is: operators send only its id."""

from __future__ import annotations

from paydesk.core import ids
from paydesk.orders.errors import ORDER_NOT_FOUND
from paydesk.storage.database import Transaction

# One primary key lookup per seller, which no plan replaces by a scan.
OWNER = """
SELECT seller_id FROM (
       SELECT s.seller_id, (SELECT 1 FROM orders o WHERE o.seller_id = s.seller_id AND o.order_id = $1) AS is_owner
         FROM sellers s) AS owners
WHERE is_owner = 1"""


async def owner_of(tx: Transaction, order_id: str) -> int:
    """Return the id of the seller who has this order. Raises `ORDER_NOT_FOUND`."""
    # An invalid id may contain characters that PostgreSQL refuses.
    row = await tx.one(OWNER, order_id) if ids.ORDER_ID.fullmatch(order_id) else None
    if row is None:
        raise ORDER_NOT_FOUND.with_reason("no seller has this order")
    return int(row[0])
