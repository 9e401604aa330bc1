"""The endpoints of operators about orders, and about the inquiries, reversals and refunds of their payments."""

from __future__ import annotations

from paydesk.core.ids import ORDER_ID_PATTERN, ULID_PATTERN
from paydesk.operators import history, order_changes, orders, outcomes, schemas
from paydesk.operators.delivery_operations import OPERATIONS as DELIVERIES
from paydesk.operators.noun import Noun, listing
from paydesk.orders.errors import CANNOT_CANCEL_ORDER, ORDER_ALREADY_CANCELED, ORDER_NOT_FOUND
from paydesk.orders.operations import ALLOW_CANCELABLE_STATUS, CANCELED_EXAMPLE
from paydesk.orders.presentation import OrderDocument
from paydesk.payments.errors import (
    CANNOT_RESOLVE_ORDER,
    CANNOT_RESOLVE_REVERSAL,
    REFUND_ERRORS,
    REVERSAL_NOT_FOUND,
)
from paydesk.payments.refund import EXAMPLE as REFUND_EXAMPLE
from paydesk.payments.refund import RefundResponse

_ORDER = Noun("orders/{order_id}", "order", ORDER_ID_PATTERN, OrderDocument, ORDER_NOT_FOUND)
_REVERSAL = Noun(
    "reversals/{reversal_id}", "reversal", f"^{ULID_PATTERN}$", outcomes.ReversalDocument, REVERSAL_NOT_FOUND
)

OPERATIONS = (
    listing("orders", orders.PAGES),
    _ORDER.reading(
        history.get_order,
        summary="Get an order with its history and notifications",
        name="inspect_order",
        answer=history.InspectedOrder,
    ),
    *DELIVERIES,
    _ORDER.acting(
        "cancel",
        order_changes.cancel,
        summary="Cancel an order as an operator",
        body=schemas.CancelOrderRequest,
        description=(
            "By the rules of applications: an order at its terminal needs the extra header, and the response is 202."
            " The audit trail records the reason."
        ),
        further_statuses=(202,),
        idempotent=True,
        on_behalf=order_changes.as_seller,
        headers=(ALLOW_CANCELABLE_STATUS,),
        example=CANCELED_EXAMPLE,
        errors=(ORDER_ALREADY_CANCELED, CANNOT_CANCEL_ORDER),
    ),
    _ORDER.acting(
        "refund",
        order_changes.REFUND,
        summary="Refund an order as an operator, whole or in part",
        body=schemas.RefundOrderRequest,
        description=(
            "By the rules of applications. Without `transactions`, refunds all that remains of the payment. The audit"
            " trail records the reason."
        ),
        status=201,
        idempotent=True,
        on_behalf=order_changes.as_seller,
        answer=RefundResponse,
        example=REFUND_EXAMPLE,
        errors=REFUND_ERRORS,
    ),
    _ORDER.acting(
        "resolve",
        outcomes.resolve,
        summary="Set the outcome of an order whose outcome is unknown",
        body=schemas.ResolveRequest,
        description=(
            "For an order at `check_on_terminal` for at least three minutes, when neither the terminal nor the acquirer"
            " reports the outcome. The audit trail records the reason. An approval that is reported after the order was"
            " declined here is a late approval and is reversed."
        ),
        errors=(CANNOT_RESOLVE_ORDER,),
    ),
    listing("inquiries", outcomes.INQUIRY_PAGES),
    listing("reversals", outcomes.REVERSAL_PAGES),
    _REVERSAL.acting(
        "resolve",
        outcomes.resolve_reversal,
        summary="Set the outcome of an unconfirmed reversal",
        transaction="none",
        body=schemas.ResolveReversalRequest,
        description=(
            "For a reversal that the acquirer has not confirmed within three minutes of the late approval: `reversed`"
            " if the amount was reversed by other means, `not_found` if there is no payment to reverse. It is not"
            " retried. The audit trail records the reason."
        ),
        errors=(CANNOT_RESOLVE_REVERSAL,),
    ),
    listing("refunds", outcomes.REFUND_PAGES),
)
