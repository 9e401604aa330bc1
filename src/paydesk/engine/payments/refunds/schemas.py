"""Requests of refunds."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from paydesk.core.ids import PAYMENT_ID_PATTERN
from paydesk.core.model import Model
from paydesk.core.money import POSITIVE_AMOUNT_PATTERN
from paydesk.engine.orders.schemas import positive_amount, text_schema


class RefundPartRequest(Model):
    """The payment and the amount to refund; without an amount, all that remains of the payment."""

    id: Annotated[str, Field(pattern=PAYMENT_ID_PATTERN, examples=["PAY01J67CQQH5904WDBVZEM4JMEP3"])]
    amount: Annotated[str, AfterValidator(positive_amount), text_schema(POSITIVE_AMOUNT_PATTERN, "5.00")] | None = None


class RefundRequest(Model):
    """`POST /v1/orders/{order_id}/refund`: a part of the payment; without it, all that remains."""

    transactions: (
        Annotated[list[RefundPartRequest], Field(min_length=1, max_length=1, description="At most one.")] | None
    ) = None
