"""What operators should know about an order: each kind once a happening, in the transaction that makes it so."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from paydesk import ids
from paydesk.orders.store import Order
from paydesk.storage.database import Transaction

Kind = Literal[
    "late_approval",
    "late_approval_reversed",
    "late_approval_unfounded",
    "unreadable_result",
    "approval_of_another_amount",
    "reference_repeated",
    "inquiry_needs_person",
    "reversal_needs_person",
    "refund_needs_person",
]

TELL = """
INSERT INTO operator_events (event_id, kind, seller_id, subject, message, body, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7)"""


async def tell(
    tx: Transaction, order: Order, kind: Kind, message: str, now_ms: int, body: str | dict[str, Any] = "{}"
) -> None:
    """Tell the operators. `body` is evidence, without anything secret."""
    evidence = body if isinstance(body, str) else msgspec.json.encode(body).decode()
    await tx.run(TELL, ids.ulid(now_ms), kind, order.seller_id, order.order_id, message, evidence, now_ms)
