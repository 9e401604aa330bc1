"""What operators should know about an order: each kind once a happening, in the transaction that makes it so."""

from __future__ import annotations

from typing import Any

from paydesk import operator_events
from paydesk.operator_events import Kind, OperatorEvent
from paydesk.orders.order import Order
from paydesk.storage.database import Transaction


async def tell(
    tx: Transaction, order: Order, kind: Kind, message: str, now_ms: int, body: str | dict[str, Any] = "{}"
) -> None:
    """Tell the operators. `body` is evidence, without anything secret."""
    event = OperatorEvent(kind, order.order_id, message, order.seller_id, body)
    await operator_events.record(tx, event, now_ms)
