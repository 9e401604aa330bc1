"""Request and response schemas of the development endpoints."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from msgspec import Meta
from pydantic import ConfigDict, Field, model_validator

from paydesk.core.model import Model, property_fault, rule
from paydesk.core.response import Response, Time
from paydesk.core.text.durations import PATTERN, TYPED_PATTERN, typed_seconds

ADVANCE_SECONDS_MAX = 3660 * 86_400


def _is_advance(text: str) -> bool:
    seconds = typed_seconds(text)
    return seconds is not None and seconds <= ADVANCE_SECONDS_MAX


True_ = Annotated[bool, rule("must be true", bool), Field(json_schema_extra={"const": True})]


class ClockMove(Model):
    """The body of `POST /dev/clock`: exactly one of its fields."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    freeze: True_ | None = None
    advance: (
        Annotated[
            str,
            rule("must be PT61S, 61s, 15m, 3h or 181d, and at most ten years", _is_advance),
            Field(examples=["PT61S", "15m", "181d"], json_schema_extra={"pattern": f"^({TYPED_PATTERN}|{PATTERN})$"}),
        ]
        | None
    ) = None
    resume: True_ | None = None
    to_next: Annotated[True_, Field(description="To the next time at which a worker has something to do.")] | None = (
        None
    )
    reset: (
        Annotated[True_, Field(description="To the machine's time, running. Refused with orders or tokens.")] | None
    ) = None

    @model_validator(mode="after")
    def _is_one_move(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise property_fault("must have exactly one of freeze, advance, resume, to_next and reset")
        return self


class ResetRequest(Model):
    """The body of `POST /dev/reset`: an empty object, or what else to remove."""

    terminals: bool = Field(
        default=False, description="Also the virtual terminals for which a point of sale was made, with it."
    )


DueKind = Literal[
    "order_expiry",
    "outcome_deadline",
    "cancel_deadline",
    "print_action_expiry",
    "confirmation",
    "refund_attempt",
    "inquiry",
    "reversal_attempt",
    "webhook_delivery",
]


class NextDue(Response, frozen=True):
    """What is due next, or what the clock was advanced to."""

    kind: DueKind
    due_date: Time
    count: Annotated[int, Meta(description="How many of this kind are due at this time.")]


class ClockAnswer(Response, frozen=True):
    """The clock of the service."""

    now: Time
    frozen: bool
    offset_seconds: Annotated[float, Meta(description="Seconds ahead of the machine's clock.")]
    renewed_credentials: (
        Annotated[
            str,
            Meta(description="The credentials file, if its tokens had expired after the move: it has new ones."),
        ]
        | None
    ) = None
    next: (
        Annotated[
            NextDue,
            Meta(
                description=(
                    "What is due next; after `to_next`, what the clock was advanced to. Without it nothing is due, and"
                    " `to_next` did not move the clock."
                )
            ),
        ]
        | None
    ) = None


class Accepted(Response, frozen=True):
    """The answer of the receiver to a notification: an empty object."""


class Received(Response, frozen=True, kw_only=True):
    """A received notification, with the fields that its body has."""

    received_date: Time
    action: str | None = None
    order_id: str | None = None
    version: int | None = None
    user_id: Annotated[int, Meta(description="The seller, of topic mp-connect.")] | None = None
    signature_valid: bool
    headers: Annotated[Any, Meta(extra_json_schema={"type": "object", "additionalProperties": {"type": "string"}})]
    body: Annotated[Any, Meta(description="The JSON body, or its text if it is not JSON.")]


class Inbox(Response, frozen=True):
    """The demo inbox."""

    data: Annotated[list[Received], Meta(description="The received notifications, newest last.")]
