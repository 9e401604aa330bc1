"""The notifications that Paydesk sends, as the `webhooks` of the OpenAPI document: one for each action.

Their schemas come from the code that makes them, their examples from `engine/orders/samples.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from paydesk.core.ids import ORDER_ID_PATTERN
from paydesk.core.response import Response, schema_of
from paydesk.engine.orders import samples, status
from paydesk.engine.orders.presentation import EXAMPLE_ORDER, Event
from paydesk.engine.orders.status import Move
from paydesk.engine.orders.status_labels import EXTENDED
from paydesk.engine.webhooks.schemas import (
    ACTIONS_OF,
    AUTHORIZED,
    CONNECT_TOPIC,
    DEAUTHORIZED,
    TOPIC,
    TYPES,
    Notification,
)
from paydesk.platform.http.openapi.components import Json
from paydesk.platform.operation import Query

SENT_MS = EXAMPLE_ORDER.created_ms + 2 * samples.STEP_MS
"""The time at which the examples are sent."""

SUMMARIES = {
    "order.created": "An order was created",
    "order.at_terminal": "The terminal has the order",
    "order.processed": "The order is paid",
    "order.failed": "The payment was declined or failed",
    "order.canceled": "The order was canceled or has expired",
    "order.refunded": "The order was refunded, in full or in part",
    "order.refund_failed": "A refund failed after its response",
    "order.expired": "The order has expired",
    "order.action_required": "The outcome of the payment is unknown",
    AUTHORIZED: "A seller has authorized the application",
    DEAUTHORIZED: "A seller or an operator has withdrawn an authorization",
}
_ONLY_EXTENDED = 'Sent only with the setting `order_statuses = "extended"`.'
DESCRIPTIONS = {
    "order.at_terminal": "Also sent when a cancel is requested there, and when the outcome of the payment is unknown: "
    "the `status_detail` of the payment shows it.",
    "order.refunded": "After a refund in part the status is still `processed`.",
    "order.refund_failed": "The order is as before; the refund is `failed`.",
    "order.expired": _ONLY_EXTENDED,
    "order.action_required": f"{_ONLY_EXTENDED} A notification of the outcome follows.",
    AUTHORIZED: "Sent to live and test subscriptions alike.",
    DEAUTHORIZED: "Sent to live and test subscriptions alike. Other authorizations of the seller stay valid.",
}


class SellerReference(Response, frozen=True):
    """The seller whose authorization has changed."""

    id: Annotated[str, Meta(pattern="^[0-9]+$", description="The same as `user_id`, as a string.")]


class ConsentNotification(Notification, frozen=True):
    """A notification about an authorization."""

    id: int
    type: Literal["mp-connect"]
    user_id: Annotated[int, Meta(description="The seller.")]
    live_mode: Literal[True]
    data: SellerReference


BODIES: dict[str, type[Notification]] = {TOPIC: Event, CONNECT_TOPIC: ConsentNotification}
"""The body of each topic's notifications."""

HEADERS = (
    Query("X-Request-Id", {"type": "string", "format": "uuid"}, "The same on every attempt of a notification.", True),
    Query("X-Retry", {"type": "string", "pattern": "^[0-9]+$"}, "How many attempts were made before this one.", True),
    Query(
        "X-Signature",
        {"type": "string", "pattern": "^ts=[0-9]+,v1=[0-9a-f]{64}$"},
        "HMAC-SHA256 over `data.id` of the query, `X-Request-Id` and the time, with the primary secret. "
        "It does not cover the body.",
        True,
    ),
    Query("webhook-id", {"type": "string"}, "The `id` of the notification.", True),
    Query(
        "webhook-timestamp", {"type": "string", "pattern": "^[0-9]+$"}, "The time of this attempt, in seconds.", True
    ),
    Query(
        "webhook-signature",
        {"type": "string", "pattern": "^v1,[0-9A-Za-z+/=]+( v1,[0-9A-Za-z+/=]+)*$"},
        "The signatures of Standard Webhooks, which cover the body: one for each valid secret.",
        True,
    ),
)


@dataclass(frozen=True)
class Webhook:
    """One action with the moves that cause it."""

    topic: str
    action: str
    moves: tuple[Move, ...]

    @property
    def name(self) -> str:
        """Its name in the document, where operations have names too."""
        return f"webhook_{self.action.replace('.', '_')}"

    @property
    def summary(self) -> str:
        """The kind of event."""
        return SUMMARIES[self.action]

    @property
    def description(self) -> str:
        """A remark for receivers; empty for most."""
        return DESCRIPTIONS.get(self.action, "")

    @property
    def query(self) -> tuple[Query, ...]:
        """The parameters that are added to the subscription's URL."""
        if self.topic == CONNECT_TOPIC:
            data_id = Query("data.id", {"type": "string", "pattern": "^[0-9]+$"}, "The seller.", True)
        else:
            # The pattern has no escapes, so in lower case it is that of the lower-case id.
            schema = {"type": "string", "pattern": ORDER_ID_PATTERN.lower()}
            data_id = Query("data.id", schema, "The order's id, in lower case.", True)
        return (data_id, Query("type", {"const": TYPES[self.topic]}, "The kind of notification.", True))

    @property
    def headers(self) -> tuple[Query, ...]:
        """The headers of the request: those of every notification."""
        return HEADERS

    @property
    def body(self) -> type[Notification]:
        """The type of the body."""
        return BODIES[self.topic]

    @property
    def data_id(self) -> str:
        """`data.id` in the query of the example."""
        return str(self.example["data"]["id"]).lower()

    @cached_property
    def example(self) -> Any:
        """A complete body."""
        return msgspec.json.decode(samples.sample(self.action, now_ms=SENT_MS).body)

    @property
    def schema(self) -> Json:
        """The schema of the body, complete."""
        described = schema_of(self.body)
        return {**described, "properties": {**described["properties"], "action": {"const": self.action}}}


def _actions(move: Move) -> set[str]:
    """Return the actions of a move, with plain and with extended statuses."""
    extended = {EXTENDED.extended[state.detail] for state in move.targets if state.detail in EXTENDED.extended}
    return {move.action, *(f"order.{label}" for label in extended)}


WEBHOOKS = tuple(
    Webhook(topic, action, tuple(move for move in status.MOVES if action in _actions(move)))
    for topic, actions in ACTIONS_OF.items()
    for action in actions
)
"""Every action, in the order of the docs."""
