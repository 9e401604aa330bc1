"""The deliveries of an order's notifications, as the order shows them: with their attempts."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated

import msgspec
from msgspec import Meta

from paydesk.core.clock import rfc3339
from paydesk.core.response import Closed, Time, named
from paydesk.engine.webhooks.delivery import resend_store
from paydesk.operators.deliveries import handlers as deliveries
from paydesk.operators.deliveries.handlers import DeliveryDocument
from paydesk.platform.storage.database import Transaction

ATTEMPTS_OF_ORDER = """
SELECT d.delivery_id, a.attempt, a.started_ms, a.duration_ms, a.answer_status, a.error, a.request
  FROM deliveries d
  JOIN attempts a ON a.seller_id = d.seller_id AND a.delivery_id = d.delivery_id
 WHERE d.seller_id = $1 AND d.order_id = $2
 ORDER BY d.delivery_id, a.attempt"""


class DeliveryAttempt(Closed, frozen=True, kw_only=True):
    """An attempt of a delivery that has ended."""

    number: int
    date: Time
    duration_ms: int
    resend: Annotated[bool, Meta(description="Whether an operator requested it, outside the schedule.")] = False
    status: Annotated[int, Meta(description="The status of the receiver's response.")] | None = None
    error: Annotated[str, Meta(description="Why there is no response, or it is not complete.")] | None = None


class OrderDelivery(DeliveryDocument, frozen=True, kw_only=True):
    """A delivery of one of the order's notifications."""

    last_attempt: DeliveryAttempt | None = None
    history: Annotated[list[DeliveryAttempt], Meta(description="All attempts that have ended, oldest first.")]


async def of_order(tx: Transaction, seller_id: int, order_id: str) -> list[OrderDelivery]:
    """Return the deliveries of an order by version."""
    attempts: defaultdict[str, list[DeliveryAttempt]] = defaultdict(list)
    for row in await tx.all(ATTEMPTS_OF_ORDER, seller_id, order_id):
        one = named("delivery_id number started_ms duration_ms status error request", row)
        is_resend = bool(one.request) and resend_store.IS_RESEND in msgspec.json.decode(one.request)
        attempt = DeliveryAttempt.of(one, date=rfc3339(one.started_ms), resend=is_resend)
        attempts[one.delivery_id].append(attempt)
    return [
        OrderDelivery.of(one, history=attempts[one.id], last_attempt=next(reversed(attempts[one.id]), None))
        for one in await deliveries.of_order(tx, seller_id, order_id)
    ]
