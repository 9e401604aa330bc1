"""Request bodies about deliveries, closed to unknown fields."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from paydesk.core.ids import ORDER_ID_PATTERN, UUID_PATTERN
from paydesk.core.model import Model, property_fault, rule
from paydesk.engine.orders.search.query import DATE, is_instant
from paydesk.operators.words import Shown

_INSTANT = rule("must be a date, such as 2026-01-31, or RFC 3339, such as 2026-01-31T14:26:42.109Z", is_instant)
_SUBSCRIPTION = "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"


_SubscriptionId = Annotated[
    str,
    Field(pattern=UUID_PATTERN, examples=[_SUBSCRIPTION]),
    Shown("Subscription", option="--subscription", metavar="ID", help="Replay this subscription's."),
]
_OrderId = Annotated[
    str,
    Field(pattern=ORDER_ID_PATTERN, examples=["ORD01J67CQQH5904WDBVZEM4JMEP3"]),
    Shown("Order", metavar="ORDER_ID", help="Replay this order's."),
]
_Since = Annotated[
    str,
    _INSTANT,
    Field(
        description="Only deliveries of events from this time on: RFC 3339, or a date.",
        examples=["2026-01-31T14:26:42.109Z"],
        json_schema_extra={"pattern": DATE["pattern"]},
    ),
    Shown(
        "Since",
        "A date in UTC, such as 2026-01-31, or a time, such as 2026-01-31T14:26:42Z. Empty: all of them.",
        noun="time",
        optional=True,
        metavar="TIME",
        help="Only those created from then on: RFC 3339, or a date.",
    ),
]


class ReplayRequest(Model):
    """`POST /operator/v1/deliveries/replay`: of either one subscription or one order."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"properties": {"order": {"not": {}}}}, {"properties": {"subscription_id": {"not": {}}}}],
            "examples": [{"subscription_id": _SUBSCRIPTION, "since": "2026-01-31T14:26:42.109Z"}],
        }
    )

    subscription_id: _SubscriptionId | None = None
    order: _OrderId | None = None
    since: _Since | None = None

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.subscription_id is None) == (self.order is None):
            raise property_fault("must have exactly one of subscription_id and order")
        return self
