"""What a notification says. It is written once, with the move, and kept: every attempt sends the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paydesk.clock import rfc3339

TOPIC = "orders"
"""The topic of order notifications."""

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
)
"""The actions that a subscription may name."""

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
            "type": "order",
            "user_id": str(user_id),
            "live_mode": live,
            "date_created": rfc3339(now_ms),
            "data": data,
        }
    )
