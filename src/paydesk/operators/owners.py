"""The look-up of the seller of an order or a delivery: operators send only its id."""

from __future__ import annotations

from paydesk.core import ids
from paydesk.engine.orders.errors import ORDER_NOT_FOUND
from paydesk.platform.storage.database import Transaction


def statement(table: str, key: str) -> str:
    """Return the statement that finds the seller of a row: by one primary key look-up per seller, never by a scan."""
    return f"""
SELECT seller_id FROM (
       SELECT s.seller_id, (SELECT 1 FROM {table} o WHERE o.seller_id = s.seller_id AND o.{key} = $1) AS is_owner
         FROM sellers s) AS owners
WHERE is_owner = 1"""


OWNER = statement("orders", "order_id")


async def owner_of(tx: Transaction, order_id: str) -> int:
    """Return the id of the seller who has this order. Raises `ORDER_NOT_FOUND`."""
    # An invalid id may contain characters that PostgreSQL refuses.
    row = await tx.one(OWNER, order_id) if ids.ORDER_ID.fullmatch(order_id) else None
    if row is None:
        raise ORDER_NOT_FOUND.with_reason("no seller has this order")
    return int(row[0])
