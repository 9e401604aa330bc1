"""Request and response schemas of the development endpoints."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from paydesk.core.durations import PATTERN, TYPED_PATTERN, typed_seconds
from paydesk.core.ids import ULID_PATTERN
from paydesk.core.model import Model
from paydesk.core.money import AMOUNT_PATTERN
from paydesk.device.reports import Card, PaymentMethod
from paydesk.orders.status import FAILED_DETAILS

ADVANCE_SECONDS_MAX = 3660 * 86_400


def _true(value: bool) -> bool:  # noqa: FBT001  # validators are called with one positional argument
    if not value:
        raise PydanticCustomError("property_value", "must be true")
    return value


def _advance(text: str) -> str:
    seconds = typed_seconds(text)
    if seconds is None or seconds > ADVANCE_SECONDS_MAX:
        raise PydanticCustomError("property_value", "must be PT61S, 61s, 15m, 3h or 181d, and at most ten years")
    return text


True_ = Annotated[bool, AfterValidator(_true), Field(json_schema_extra={"const": True})]


class ClockMove(Model):
    """The body of `POST /dev/clock`: exactly one of its fields."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    freeze: True_ | None = None
    advance: (
        Annotated[
            str,
            AfterValidator(_advance),
            Field(examples=["PT61S", "15m", "181d"], json_schema_extra={"pattern": f"^({TYPED_PATTERN}|{PATTERN})$"}),
        ]
        | None
    ) = None
    resume: True_ | None = None

    @model_validator(mode="after")
    def _is_one_move(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise PydanticCustomError("property_value", "must have exactly one of freeze, advance and resume")
        return self


class AcquirerRequest(Model):
    """The body of `POST /virtual/v1/acquirer/payments`."""

    payment_id: Annotated[str, Field(pattern=f"^PAY{ULID_PATTERN}$", examples=["PAY01J67CQQH5904WDBVZEM4JMEP3"])]
    amount: Annotated[str, Field(pattern=AMOUNT_PATTERN, examples=["24.90"])]
    payment_method: PaymentMethod
    card: Card


ACQUIRER_ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["outcome"],
    "properties": {
        "outcome": {
            "enum": ["approved", "declined", "unknown", "not_sent"],
            "description": "`unknown`: no answer, the card may be charged. `not_sent`: the card was not charged.",
        },
        "status_detail": {"enum": list(FAILED_DETAILS), "description": "The reason of a decline."},
        "amount": {"type": "string"},
        "authorization_code": {"type": "string"},
        "reference_id": {"type": "string"},
    },
}

CLOCK: dict[str, Any] = {
    "type": "object",
    "required": ["now", "frozen", "offset_seconds"],
    "properties": {
        "now": {"type": "string", "format": "date-time"},
        "frozen": {"type": "boolean"},
        "offset_seconds": {"type": "number", "description": "Seconds ahead of the machine's clock."},
    },
}

INBOX: dict[str, Any] = {
    "type": "object",
    "required": ["data"],
    "properties": {
        "data": {
            "type": "array",
            "description": "The received notifications, newest last.",
            "items": {
                "type": "object",
                "required": ["received_date", "signature_valid", "headers", "body"],
                "properties": {
                    "received_date": {"type": "string", "format": "date-time"},
                    "action": {"type": "string"},
                    "order_id": {"type": "string"},
                    "version": {"type": "integer"},
                    "user_id": {"type": "integer", "description": "The seller, of topic mp-connect."},
                    "signature_valid": {"type": "boolean"},
                    "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                    "body": {"description": "The JSON body, or its text if it is not JSON."},
                },
            },
        }
    },
}
