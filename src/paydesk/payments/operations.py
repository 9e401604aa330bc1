"""The rows of the interface table for refunds."""

from __future__ import annotations

from paydesk.core.ids import ORDER_ID_PATTERN
from paydesk.operation import Operation
from paydesk.orders import handlers
from paydesk.orders.errors import (
    ORDER_NOT_FOUND,
)
from paydesk.orders.response_schemas import REFUND_ANSWER, REFUND_EXAMPLE
from paydesk.orders.schemas import RefundRequest
from paydesk.payments import refunds
from paydesk.payments.errors import (
    CANNOT_REFUND_ORDER,
    ORDER_ALREADY_REFUNDED,
    PARTIAL_REFUND_FORBIDDEN_WITH_TIPS,
    REFUND_AMOUNT_EXCEEDS,
    REFUND_IN_PROGRESS,
    REFUND_PERIOD_EXCEEDED,
    TRANSACTION_NOT_FOUND,
)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="POST",
        path="/v1/orders/{order_id}/refund",
        name="refund_order",
        summary="Refund an order, whole or in part",
        description=(
            "Without a body all that is left is given back. The acquirer has a few seconds for its decision: confirmed,"
            " the refund is `processed`; declined, 409 `cannot_refund_order`, and the key is used up; undecided, the"
            " refund is `processing` and GET, or a notification, tells what became of it. A repeat with the same key"
            " is given the same answer and moves nothing. The order is `refunded` when all of it is back."
        ),
        surface="application",
        refuses_test_header=True,
        scope="write",
        idempotent=True,
        handler=refunds.STEPS,
        conflict_keys=handlers.order_of,
        status=201,
        body=RefundRequest,
        path_pattern=ORDER_ID_PATTERN,
        answer=REFUND_ANSWER,
        example=REFUND_EXAMPLE,
        errors=(
            ORDER_NOT_FOUND,
            TRANSACTION_NOT_FOUND,
            ORDER_ALREADY_REFUNDED,
            CANNOT_REFUND_ORDER,
            REFUND_PERIOD_EXCEEDED,
            PARTIAL_REFUND_FORBIDDEN_WITH_TIPS,
            REFUND_AMOUNT_EXCEEDS,
            REFUND_IN_PROGRESS,
        ),
    ),
)
