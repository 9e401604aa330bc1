"""The deliveries of an order's notifications, as the order shows them: with the last attempt."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from paydesk.core.clock import rfc3339
from paydesk.core.response import Closed, Time
from paydesk.operators import deliveries
from paydesk.operators.deliveries import DeliveryDocument
from paydesk.storage.database import Transaction

# The last row of a delivery is its last attempt.
ATTEMPTS_OF_ORDER = """
SELECT d.delivery_id, a.attempt, a.started_ms, a.duration_ms, a.answer_status, a.error
  FROM deliveries d
  LEFT JOIN attempts a ON a.seller_id = d.seller_id AND a.delivery_id = d.delivery_id
 WHERE d.seller_id = $1 AND d.order_id = $2
 ORDER BY d.delivery_id, a.attempt"""


class LastAttempt(Closed, frozen=True, kw_only=True):
    """The last attempt of a delivery that has ended."""

    number: int
    date: Time
    duration_ms: int
    status: Annotated[int, Meta(description="The status of the receiver's response.")] | None = None
    error: Annotated[str, Meta(description="Why there is no response, or it is not complete.")] | None = None


class OrderDelivery(DeliveryDocument, frozen=True, kw_only=True):
    """A delivery of one of the order's notifications."""

    last_attempt: LastAttempt | None = None


async def of_order(tx: Transaction, seller_id: int, order_id: str) -> list[OrderDelivery]:
    """Return the deliveries of an order by version."""
    attempts = {row[0]: row[1:] for row in await tx.all(ATTEMPTS_OF_ORDER, seller_id, order_id)}
    return [_with_attempt(one, *attempts[one.id]) for one in await deliveries.of_order(tx, seller_id, order_id)]


def _with_attempt(  # one parameter per column
    delivery: DeliveryDocument,
    number: int | None,
    started_ms: int,
    duration_ms: int,
    status: int | None,
    error: str | None,
) -> OrderDelivery:
    last = None
    if number is not None:
        last = LastAttempt(number=number, date=rfc3339(started_ms), duration_ms=duration_ms, status=status, error=error)
    return OrderDelivery.of(delivery, last_attempt=last)
