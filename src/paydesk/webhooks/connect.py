"""The topic `mp-connect`: what happens between a seller and an application is told to the application.

The event, its number and its deliveries are committed with what happened, or not at all.
"""

from __future__ import annotations

from paydesk.core import ids
from paydesk.storage.database import Transaction
from paydesk.webhooks.schemas import connect_notification

# In: the next event of a seller and an application. Who comes second to a number waits, and gets none: then the next.
ADD_EVENT = """
INSERT INTO application_events (seller_id, application_id, version, action, body, created_ms)
SELECT CAST($1 AS bigint), CAST($2 AS bigint), COALESCE(MAX(version), 0) + 1, CAST($3 AS text), CAST($4 AS text),
       CAST($5 AS bigint)
  FROM application_events WHERE seller_id = $1 AND application_id = $2
ON CONFLICT DO NOTHING RETURNING version
"""

# In: its deliveries. What an order is to other deliveries the application is to these: they go in order of `version`.
ADD_DELIVERIES = """
INSERT INTO deliveries (seller_id, delivery_id, subscription_id, order_id, version, status, attempts, next_ms,
                        claimed_until_ms, created_ms)
SELECT CAST($1 AS bigint), CAST($2 AS text) || '.' || subscription_id, subscription_id,
       CAST(application_id AS text), CAST($3 AS bigint), 'pending', 0, CAST($4 AS bigint), 0, CAST($4 AS bigint)
  FROM subscriptions
 WHERE topic = 'mp-connect' AND application_id = $5 AND deleted_ms IS NULL
   AND (actions = '[]' OR actions LIKE '%"' || CAST($6 AS text) || '"%')
"""


async def announce(tx: Transaction, *, seller_id: int, application_id: int, action: str, now_ms: int) -> None:
    """Write down what happened, and make a delivery for each subscription that matches, live and test ones alike."""
    event_id = ids.event_number()
    body = connect_notification(
        event_id=event_id, action=action, application_id=application_id, user_id=seller_id, now_ms=now_ms
    ).decode()
    row = None
    while row is None:
        row = await tx.one(ADD_EVENT, seller_id, application_id, action, body, now_ms)
    tx.defer(ADD_DELIVERIES, seller_id, str(event_id), row[0], now_ms, application_id, action, notify="deliveries")
