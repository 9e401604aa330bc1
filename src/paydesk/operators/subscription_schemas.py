"""Request bodies about webhook subscriptions, closed to unknown fields.

`webhooks.subscriptions` checks the values of URLs and actions.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from paydesk.core.model import NO_CARD_NUMBER, Model
from paydesk.operators.schemas import Change, Id
from paydesk.webhooks.schemas import ACTIONS_OF

_TOPIC: dict[str, Any] = {"enum": list(ACTIONS_OF)}
_ACTION: dict[str, Any] = {"enum": [action for actions in ACTIONS_OF.values() for action in actions]}
Url = Annotated[str, Field(max_length=2000, examples=["https://shop.example/webhooks"]), NO_CARD_NUMBER]
Actions = Annotated[
    list[Annotated[str, Field(max_length=64, json_schema_extra=_ACTION)]],
    Field(max_length=20, description="Only these actions; an empty list means all."),
]


class SubscriptionRequest(Model):
    """`POST /operator/v1/subscriptions`."""

    client_id: Id = Field(examples=[3676047501096810])
    url: Url
    topic: Annotated[str, Field(max_length=64, json_schema_extra=_TOPIC)] = "orders"
    live_mode: bool = False
    actions: Actions | None = None


class SubscriptionChange(Change):
    """`PATCH /operator/v1/subscriptions/{subscription_id}`. Application, topic and mode cannot change."""

    url: Url | None = None
    actions: Actions | None = None
