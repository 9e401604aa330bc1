"""Request bodies about webhook subscriptions, closed to unknown fields.

`webhooks.subscriptions` checks the values of URLs and actions.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from paydesk.core.model import NO_CARD_NUMBER, Model
from paydesk.engine.webhooks.schemas import ACTIONS_OF, CONNECT_TOPIC, TOPIC
from paydesk.engine.webhooks.subscriptions.store import EVERY_TOPIC
from paydesk.operators.documents import Choices, Document, Reader
from paydesk.operators.properties import listed
from paydesk.operators.schemas import Change, Id
from paydesk.operators.words import Shown

_TOPIC: dict[str, Any] = {"enum": list(ACTIONS_OF)}
_ACTION: dict[str, Any] = {"enum": [action for actions in EVERY_TOPIC.values() for action in actions]}

_GROUPS = {"attention": "Everything that needs a person", "event": "Every operator event"}


async def _actions(_: Reader, names: Document) -> Choices:
    """Return the actions of the topic; of operators' many ones the groups, and those that are chosen already."""
    topic = names.get("topic", TOPIC)
    shown = EVERY_TOPIC[topic] if topic in ACTIONS_OF else dict.fromkeys((*_GROUPS, *names.get("actions", ())))
    return [(action, _GROUPS.get(action, action)) for action in shown]


Url = Annotated[
    str,
    Field(max_length=2000, examples=["https://shop.example/webhooks"]),
    NO_CARD_NUMBER,
    Shown(
        "URL",
        "Where notifications are sent: https, and a host with public addresses. In development also http to this"
        " machine.",
    ),
]
Actions = Annotated[
    list[Annotated[str, Field(max_length=64, json_schema_extra=_ACTION)]],
    Field(max_length=50, description="Only these actions; an empty list means all."),
    Shown(
        "Actions",
        labels=_actions,
        help="Only this action, such as order.processed, or attention for operators; may be given several times.",
        option="--action",
        none="--all-actions",
    ),
]


class SubscriptionRequest(Model):
    """`POST /operator/v1/subscriptions`."""

    client_id: Annotated[
        Id,
        Shown(
            "Application",
            labels=listed("applications", "client_id", "{name} ({client_id})"),
            help="The application to notify. [default: the demo application]",
            credential="client_id",
        ),
    ] = Field(examples=[3676047501096810])
    url: Url
    topic: Annotated[
        str,
        Field(max_length=64, json_schema_extra=_TOPIC),
        Shown(
            "Topic",
            labels={TOPIC: "Orders", CONNECT_TOPIC: "Authorizations and withdrawals of sellers"},
            help="orders, or mp-connect for sellers' authorizations and withdrawals.",
        ),
    ] = "orders"
    live_mode: Annotated[
        bool,
        Shown(
            "Which orders",
            labels={"true": "Live orders", "false": "Test orders"},
            help="Live orders or test orders, never both.",
            option="--live/--test",
        ),
    ] = False
    actions: Actions | None = None


class OperatorSubscriptionRequest(Model):
    """`POST /operator/v1/subscriptions/operators`."""

    url: Url
    actions: Actions | None = None


class SubscriptionChange(Change):
    """`PATCH /operator/v1/subscriptions/{subscription_id}`. Application, topic and mode cannot change."""

    url: Url | None = None
    actions: Actions | None = None


def of_topic(body: Document, _: Document) -> Document:
    """Return the body for a new subscription: actions can only be chosen for the topic of orders."""
    return {**body, "actions": body["actions"] if body["topic"] == TOPIC else []}
