"""The body of a notification. It is encoded once, with the event, and stored: every attempt sends the same bytes."""

from __future__ import annotations

from typing import Any, Literal

from paydesk.core.response import Response, Time

TOPIC = "orders"
"""The topic of order notifications."""

CONNECT_TOPIC = "mp-connect"
"""The topic of sellers' consents to the application."""

OPERATORS_TOPIC = "operators"
"""The topic of what operators are notified of."""

OPERATORS = 1
"""Takes the place of the application and the seller in rows about operators' notifications: no other has this number.

The constraint of `subscriptions.topic` has no value for them, so their subscriptions are those of this application.
"""

TOPIC_OF = f"CASE WHEN {{0}}application_id = {OPERATORS} THEN '{OPERATORS_TOPIC}' ELSE {{0}}topic END"
"""The topic of a row of `subscriptions`, formatted with the prefix of its columns."""

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

TYPES = {TOPIC: "order", CONNECT_TOPIC: "mp-connect", OPERATORS_TOPIC: "operators"}
"""The `type` of a notification, in its body and in the query, by topic."""


class Notification(Response, frozen=True):
    """The body of a notification."""

    id: str | int
    action: str
    api_version: Literal["v1"]
    application_id: str
    type: str
    user_id: str | int
    """A string about orders, a number about consents: existing receivers expect both."""
    live_mode: bool
    date_created: Time
    data: Any
