"""The outbox: an event's deliveries are inserted in the event's own transaction, one per matching subscription."""

from __future__ import annotations

import msgspec

from paydesk.core import ids
from paydesk.core.clock import rfc3339
from paydesk.core.trace import CURRENT
from paydesk.engine.webhooks.schedule import PARKED_MS, PENDING
from paydesk.engine.webhooks.schemas import CONNECT_TOPIC, TYPES, Notification
from paydesk.platform.storage.database import Transaction


def _announce(column: str = "", value: str = "") -> str:
    # `actions` is the JSON array that msgspec writes, so an action appears in it within quotes.
    return f"""
INSERT INTO deliveries (seller_id, delivery_id, subscription_id, order_id, version, status, attempts, next_ms,
                        claimed_until_ms, created_ms{column})
SELECT CAST($1 AS bigint), CAST($2 AS text) || '.' || subscription_id, subscription_id, CAST($3 AS text),
       CAST($4 AS bigint), '{PENDING.name}', 0,
       CASE WHEN paused_ms IS NULL THEN CAST($5 AS bigint) ELSE {PARKED_MS} END, 0, CAST($5 AS bigint){value}
  FROM subscriptions
 WHERE topic = 'orders' AND application_id = $6 AND live = $7 AND deleted_ms IS NULL
   AND (actions = '[]' OR actions LIKE '%"' || CAST($8 AS text) || '"%')
"""


ANNOUNCE = _announce()
ANNOUNCE_TRACED = _announce(", trace", ", CAST($9 AS text)")
"""The same for an event of a request with a trace; the other one costs those without a trace nothing."""

# Returns no row if a concurrent transaction took the version; the caller repeats it.
ADD_APPLICATION_EVENT = """
INSERT INTO application_events (seller_id, application_id, version, action, body, created_ms)
SELECT CAST($1 AS bigint), CAST($2 AS bigint), COALESCE(MAX(version), 0) + 1, CAST($3 AS text), CAST($4 AS text),
       CAST($5 AS bigint)
  FROM application_events WHERE seller_id = $1 AND application_id = $2
ON CONFLICT DO NOTHING RETURNING version
"""

# The application's id takes the place of the order's id, so these deliveries go in order of `version` too.
ANNOUNCE_CONNECT = f"""
INSERT INTO deliveries (seller_id, delivery_id, subscription_id, order_id, version, status, attempts, next_ms,
                        claimed_until_ms, created_ms)
SELECT CAST($1 AS bigint), CAST($2 AS text) || '.' || subscription_id, subscription_id,
       CAST(application_id AS text), CAST($3 AS bigint), '{PENDING.name}', 0,
       CASE WHEN paused_ms IS NULL THEN CAST($4 AS bigint) ELSE {PARKED_MS} END, 0, CAST($4 AS bigint)
  FROM subscriptions
 WHERE topic = 'mp-connect' AND application_id = $5 AND deleted_ms IS NULL
   AND (actions = '[]' OR actions LIKE '%"' || CAST($6 AS text) || '"%')
"""


class OrderEvent(msgspec.Struct, frozen=True):
    """One row of `order_events`, the columns that a move writes."""

    seller_id: int
    order_id: str
    version: int
    event_id: str
    action: str
    move: str
    status: str
    status_detail: str
    payment_status_detail: str
    body: str
    created_ms: int
    application_id: int
    live: int


_COLUMNS = OrderEvent.__struct_fields__

ADD_ORDER_EVENT = f"""
INSERT INTO order_events ({", ".join(_COLUMNS)})
VALUES ({", ".join(f"${place}" for place in range(1, len(_COLUMNS) + 1))})"""


def announce(tx: Transaction, event: OrderEvent) -> None:
    """Insert an order's event and its deliveries."""
    tx.defer(ADD_ORDER_EVENT, *msgspec.structs.astuple(event))
    name = event.seller_id, event.event_id, event.order_id, event.version, event.created_ms
    matching, trace = (event.application_id, event.live, event.action), CURRENT.get()
    if trace is None:
        tx.defer(ANNOUNCE, *name, *matching, notify="deliveries")
    else:
        tx.defer(ANNOUNCE_TRACED, *name, *matching, " ".join(trace.headers.values()), notify="deliveries")


async def announce_connect(tx: Transaction, *, seller_id: int, application_id: int, action: str, now_ms: int) -> None:
    """Insert an event of topic `mp-connect` and its deliveries, to live and test subscriptions alike."""
    event_id = ids.event_number()
    notification = consent_notification(
        event_id, seller_id=seller_id, application_id=application_id, action=action, now_ms=now_ms
    )
    body = msgspec.json.encode(notification).decode()
    row = None
    while row is None:
        row = await tx.one(ADD_APPLICATION_EVENT, seller_id, application_id, action, body, now_ms)
    tx.defer(ANNOUNCE_CONNECT, seller_id, str(event_id), row[0], now_ms, application_id, action, notify="deliveries")


def consent_notification(
    event_id: int, *, seller_id: int, application_id: int, action: str, now_ms: int
) -> Notification:
    """Return the notification of topic `mp-connect` about the seller's consent to the application."""
    return Notification(
        id=event_id,
        action=action,
        api_version="v1",
        application_id=str(application_id),
        type=TYPES[CONNECT_TOPIC],
        user_id=seller_id,
        live_mode=True,
        date_created=rfc3339(now_ms),
        data={"id": str(seller_id)},
    )
