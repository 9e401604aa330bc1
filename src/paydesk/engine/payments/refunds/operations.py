"""The operations on payments."""

from __future__ import annotations

from paydesk.engine.orders import handlers
from paydesk.engine.orders.operations import ORDER
from paydesk.engine.payments.errors import REFUND_ERRORS
from paydesk.engine.payments.refund import EXAMPLE, KEYS_KEPT_DAYS_MIN, RefundedOrder
from paydesk.engine.payments.refunds import handlers as refunds
from paydesk.engine.payments.refunds.schemas import RefundRequest
from paydesk.platform.operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    ORDER.post(
        "/refund",
        "refund_order",
        refunds.PHASES,
        description=(
            "Without a body, refunds all that remains of the payment. The acquirer has a few seconds to decide. If it"
            " confirms, the refund is `processed`. If it declines, the response is 409 `cannot_refund_order` and the"
            " idempotency key is used up. If it has not decided, the refund is `processing`: poll the order with GET,"
            " or wait for a notification. A repeated request with the same key gets the same response and moves no"
            " money. The order becomes `refunded` when all of it is refunded."
        ),
        idempotent=True,
        keys_kept_days_min=KEYS_KEPT_DAYS_MIN,
        conflict_keys=handlers.order_key,
        status=201,
        body=RefundRequest,
        answer=RefundedOrder,
        example=EXAMPLE,
        errors=REFUND_ERRORS,
    ),
)
