"""Notifications for operators in the outbox: a row of `order_events`, and a delivery to each matching subscription."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paydesk.core import ids
from paydesk.core.clock import rfc3339
from paydesk.engine.webhooks.outbox import ADD_ORDER_EVENT, OrderEvent
from paydesk.engine.webhooks.schedule import PARKED_MS, PENDING
from paydesk.engine.webhooks.schemas import OPERATORS, OPERATORS_TOPIC, TYPES
from paydesk.platform.storage.database import Transaction

# A subscription gets nothing about itself ($5), or its failures would make further deliveries to it.
ANNOUNCE = f"""
INSERT INTO deliveries (seller_id, delivery_id, subscription_id, order_id, version, status, attempts, next_ms,
                        claimed_until_ms, created_ms)
SELECT CAST({OPERATORS} AS bigint), CAST($1 AS text) || '.' || subscription_id, subscription_id, CAST($2 AS text),
       CAST($3 AS bigint), '{PENDING.name}', 0,
       CASE WHEN paused_ms IS NULL THEN CAST($4 AS bigint) ELSE {PARKED_MS} END, 0, CAST($4 AS bigint)
  FROM subscriptions
 WHERE application_id = {OPERATORS} AND deleted_ms IS NULL AND subscription_id <> $5
   AND (actions = '[]' OR actions LIKE '%"' || CAST($6 AS text) || '"%'
        OR actions LIKE '%"' || CAST($7 AS text) || '"%')
"""


async def announce(
    tx: Transaction, action: str, data: Mapping[str, Any], now_ms: int, thread: int | None = None, version: int = 1
) -> None:
    """Insert a notification with its deliveries, unless no subscription of operators matches.

    `action` is `attention` or `event`, with the kind after a point. Versions of a thread are sent in order; its number
    takes the place of an order's id.
    """
    event_id, thread_id = ids.uuid(), str(thread or ids.event_number())
    about = data.get("subject", ""), action.partition(".")[0], action
    if not await tx.run(ANNOUNCE, event_id, thread_id, version, now_ms, *about):
        return
    body = {"id": event_id, "action": action, "api_version": "v1", "type": TYPES[OPERATORS_TOPIC]}
    encoded = msgspec.json.encode({**body, "date_created": rfc3339(now_ms), "data": data}).decode()
    keys, state = (OPERATORS, thread_id, version, event_id, action), ("announce", "", "", "")
    event = OrderEvent(*keys, *state, encoded, now_ms, application_id=OPERATORS, live=1)
    await tx.run(ADD_ORDER_EVENT, *msgspec.structs.astuple(event))
    tx.notify("deliveries")
