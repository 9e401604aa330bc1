"""Requests and responses of refunds."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from paydesk.core.ids import ORDER_ID_PATTERN, PAYMENT_ID_PATTERN
from paydesk.core.model import Model
from paydesk.core.money import AMOUNT_PATTERN
from paydesk.orders.response_schemas import EXAMPLE, REFUND
from paydesk.orders.schemas import positive_amount, text_schema
from paydesk.orders.status import STATES
from paydesk.orders.status_labels import EXTENDED


class RefundPartRequest(Model):
    """The payment and the amount to refund."""

    id: Annotated[str, Field(pattern=PAYMENT_ID_PATTERN, examples=["PAY01J67CQQH5904WDBVZEM4JMEP3"])]
    amount: Annotated[str, AfterValidator(positive_amount), text_schema(AMOUNT_PATTERN, "5.00")]


class RefundRequest(Model):
    """`POST /v1/orders/{order_id}/refund`: a part of the payment; without it, all that remains."""

    transactions: Annotated[list[RefundPartRequest], Field(min_length=1, max_length=1)] | None = None


REFUND_RESPONSE: dict[str, Any] = {
    "type": "object",
    "required": ["id", "status", "status_detail", "transactions"],
    "properties": {
        "id": {"type": "string", "pattern": ORDER_ID_PATTERN},
        "status": {"enum": list(EXTENDED.all)},
        "status_detail": {"enum": list(dict.fromkeys(state.detail for state in STATES))},
        "transactions": {
            "type": "object",
            "required": ["refunds"],
            "properties": {"refunds": {"type": "array", "items": REFUND, "minItems": 1, "maxItems": 1}},
        },
    },
}

REFUND_EXAMPLE: dict[str, Any] = {
    "id": EXAMPLE["id"],
    "status": "processed",
    "status_detail": "partially_refunded",
    "transactions": {
        "refunds": [
            {
                "id": "REF01J67D5XJVM2Z0S9C3HQ4T8W1N",
                "transaction_id": EXAMPLE["transactions"]["payments"][0]["id"],
                "reference_id": "115019989861",
                "amount": "5.00",
                "status": "processed",
                "created_date": "2026-01-31T15:02:11.480Z",
            }
        ]
    },
}
