"""What a notification says. It is written once, with the event, and kept: every attempt sends the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paydesk.core.clock import rfc3339

TOPIC = "orders"
"""The topic of order notifications."""

CONNECT_TOPIC = "mp-connect"
"""The topic of what happens between sellers and the application itself."""

EARLIER_TOPIC = "point_integration_wh"
"""What the topic was called before; it can't be subscribed any more."""

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
"""The actions of an order; the last two are sent where statuses are extended, instead of `canceled`, `at_terminal`."""

AUTHORIZED, DEAUTHORIZED = "application.authorized", "application.deauthorized"

ACTIONS_OF = {TOPIC: ACTIONS, CONNECT_TOPIC: (AUTHORIZED, DEAUTHORIZED)}
"""The actions that a subscription may name, by its topic."""

TYPES = {TOPIC: "order", CONNECT_TOPIC: "mp-connect"}
"""What a notification's `type` says, in its body and in the query, by its topic."""

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
    """The body of a notification about an order; `data` is what it says of the order, in its own order of fields."""
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
    """The body of a notification about a seller's consent, which is neither live nor test: it stands for both."""
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
