"""The outbox: a move announces itself, and its deliveries are committed with it or not at all."""

from __future__ import annotations

from paydesk.storage.database import Transaction

# A subscription's actions are kept as the JSON array that msgspec writes, so an action stands in it within quotes.
ANNOUNCE = """
INSERT INTO deliveries (seller_id, delivery_id, subscription_id, order_id, version, status, attempts, next_ms,
                        claimed_until_ms, created_ms)
SELECT CAST($1 AS bigint), CAST($2 AS text) || '.' || subscription_id, subscription_id, CAST($3 AS text),
       CAST($4 AS bigint), 'pending', 0, CAST($5 AS bigint), 0, CAST($5 AS bigint)
  FROM subscriptions
 WHERE topic = 'orders' AND application_id = $6 AND live = $7 AND deleted_ms IS NULL
   AND (actions = '[]' OR actions LIKE '%"' || CAST($8 AS text) || '"%')
"""


def announce(  # noqa: PLR0913 - the event's columns, each by name
    tx: Transaction,
    *,
    seller_id: int,
    order_id: str,
    version: int,
    event_id: str,
    application_id: int,
    live: bool,
    action: str,
    now_ms: int,
) -> None:
    """Make the event's deliveries, one for each subscription that matches, in the transaction of the move."""
    tx.defer(
        ANNOUNCE,
        seller_id,
        event_id,
        order_id,
        version,
        now_ms,
        application_id,
        int(live),
        action,
        notify="deliveries",
    )
