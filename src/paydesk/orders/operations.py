"""The rows of the interface table that orders answer."""

from __future__ import annotations

from dataclasses import replace

from paydesk.errors import PROPERTY_VALUE, UNSUPPORTED_PROPERTIES
from paydesk.ids import ORDER_ID_PATTERN
from paydesk.operation import Operation, Query
from paydesk.orders import handlers, refunds, searching, simulated_payment
from paydesk.orders.errors import (
    ALREADY_QUEUED_ORDER_ON_TERMINAL,
    CANNOT_CANCEL_ORDER,
    CANNOT_REFUND_ORDER,
    FORBIDDEN_CHECKING_TERMINAL_OWNER,
    ORDER_ALREADY_CANCELED,
    ORDER_ALREADY_REFUNDED,
    ORDER_NOT_FOUND,
    PARTIAL_REFUND_FORBIDDEN_WITH_TIPS,
    REFUND_AMOUNT_EXCEEDS,
    REFUND_IN_PROGRESS,
    REFUND_PERIOD_EXCEEDED,
    TERMINAL_NOT_IN_PDV_MODE,
    TRANSACTION_NOT_FOUND,
)
from paydesk.orders.schemas import CancelRequest, OrderRequest, RefundRequest, SimulatedRequest
from paydesk.orders.shapes import EXAMPLE, FOUND, ORDER, REFUND_ANSWER, REFUND_EXAMPLE, example_at

_ROWS: tuple[Operation, ...] = (
    Operation(
        method="POST",
        path="/v1/orders",
        name="create_order",
        summary="Create an order for a terminal",
        surface="application",
        scope="write",
        idempotent=True,
        handler=handlers.create,
        conflict_keys=handlers.terminal_of_new,
        status=201,
        body=OrderRequest,
        answer=ORDER,
        example=EXAMPLE,
        errors=(FORBIDDEN_CHECKING_TERMINAL_OWNER, TERMINAL_NOT_IN_PDV_MODE, ALREADY_QUEUED_ORDER_ON_TERMINAL),
    ),
    Operation(
        method="GET",
        path="/v1/orders",
        name="search_orders",
        summary="Search orders",
        description=(
            "The seller's orders of the token's kind, whichever application made them. What was committed before the"
            " search is found. `total` is exact."
        ),
        surface="application",
        scope="read",
        transaction="heavy",
        handler=handlers.search,
        query=searching.PARAMETERS,
        answer=FOUND,
        example={"data": [EXAMPLE], "paging": {"total": "1", "total_pages": "1", "offset": "0", "limit": "50"}},
        errors=(UNSUPPORTED_PROPERTIES, PROPERTY_VALUE),
    ),
    Operation(
        method="GET",
        path="/v1/orders/{order_id}",
        name="get_order",
        summary="Retrieve an order",
        surface="application",
        scope="read",
        transaction="read",
        handler=handlers.get,
        path_pattern=ORDER_ID_PATTERN,
        answer=ORDER,
        example=EXAMPLE,
        errors=(ORDER_NOT_FOUND,),
    ),
    Operation(
        method="POST",
        path="/v1/orders/{order_id}/cancel",
        name="cancel_order",
        summary="Cancel an order",
        description=(
            "A created order is canceled at once. One at its terminal takes the extra header: 202, and the terminal is"
            " asked; it ends as canceled, or by its outcome when authorizing had been granted before."
        ),
        further_statuses=(202,),
        surface="application",
        scope="write",
        idempotent=True,
        handler=handlers.cancel,
        conflict_keys=handlers.order_of,
        body=CancelRequest,
        headers=(
            Query(
                "X-Allow-Cancelable-Status",
                {"type": "string", "enum": ["at_terminal"]},
                "Asks for a cancel at the terminal; ignored while the order is created.",
            ),
        ),
        path_pattern=ORDER_ID_PATTERN,
        answer=ORDER,
        example=example_at("canceled", "canceled", "canceled_by_api"),
        errors=(ORDER_NOT_FOUND, ORDER_ALREADY_CANCELED, CANNOT_CANCEL_ORDER),
    ),
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
    Operation(
        method="POST",
        path="/v1/orders/{order_id}/events",
        name="simulate_order",
        summary="Bring a test order to a status",
        description=(
            "Without its terminal, by way of `at_terminal`; only an order that is processed becomes refunded. Every"
            " move on the way is committed, and notified, before the answer. A terminal that has the order is told"
            " `cancel`. After the terminal was granted to authorize it is too late, until the outcome is unknown."
            " After `action_required` the acquirer is not asked: a further request ends the order."
        ),
        surface="application",
        scope="write",
        handler=simulated_payment.bring,
        transaction="none",
        status=204,
        body=SimulatedRequest,
        path_pattern=ORDER_ID_PATTERN,
        errors=(ORDER_NOT_FOUND,),
    ),
)

# A caller who means a test order must not charge anybody by mistake, whatever is asked of orders.
OPERATIONS = tuple(replace(row, refuses_test_header=True) for row in _ROWS)
