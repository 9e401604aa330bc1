"""The body of a notification. It is encoded once, with the event, and stored: every attempt sends the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paydesk.core.clock import rfc3339

TOPIC = "orders"
"""The topic of order notifications."""

CONNECT_TOPIC = "mp-connect"
"""The topic of sellers' consents to the application."""

EARLIER_TOPIC = "point_integration_wh"
"""The former name of `orders`; new subscriptions to it are refused."""

ACTIONS = (
    "order.created",
    "order.at_terminal",
    "order.processed",
    "order.failed",
    "order.canceled",
    "order.refunded",
    "order.refund_failed",
    "order.expired",
    "order.action_required",
)
"""The actions of an order. The last two replace `canceled` and `at_terminal` if statuses are extended."""

AUTHORIZED, DEAUTHORIZED = "application.authorized", "application.deauthorized"

ACTIONS_OF = {TOPIC: ACTIONS, CONNECT_TOPIC: (AUTHORIZED, DEAUTHORIZED)}
"""The actions that a subscription may name, by topic."""

TYPES = {TOPIC: "order", CONNECT_TOPIC: "mp-connect"}
"""The `type` of a notification, in its body and in the query, by topic."""

_encoder = msgspec.json.Encoder()


def notification(
    *,
    event_id: str,
    action: str,
    application_id: int,
    user_id: int,
    live: bool,
    now_ms: int,
    data: Mapping[str, Any],
) -> bytes:
    """Encode a notification about an order; `data` is the order as notifications show it."""
    return _encoder.encode(
        {
            "id": event_id,
            "action": action,
            "api_version": "v1",
            "application_id": str(application_id),
            "type": TYPES[TOPIC],
            "user_id": str(user_id),
            "live_mode": live,
            "date_created": rfc3339(now_ms),
            "data": data,
        }
    )


def connect_notification(*, event_id: int, action: str, application_id: int, user_id: int, now_ms: int) -> bytes:
    """Encode a notification about a seller's consent. A consent covers live and test; `live_mode` is always true."""
    return _encoder.encode(
        {
            "id": event_id,
            "action": action,
            "api_version": "v1",
            "application_id": str(application_id),
            "type": TYPES[CONNECT_TOPIC],
            "user_id": user_id,
            "live_mode": True,
            "date_created": rfc3339(now_ms),
            "data": {"id": str(user_id)},
        }
    )
