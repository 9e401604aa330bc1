"""The rows of the interface table that orders answer."""

from __future__ import annotations

from paydesk.core.errors import PROPERTY_VALUE, UNSUPPORTED_PROPERTIES
from paydesk.core.ids import ORDER_ID_PATTERN
from paydesk.operation import Operation, Query
from paydesk.orders import handlers, searching
from paydesk.orders.errors import (
    ALREADY_QUEUED_ORDER_ON_TERMINAL,
    CANNOT_CANCEL_ORDER,
    FORBIDDEN_CHECKING_TERMINAL_OWNER,
    ORDER_ALREADY_CANCELED,
    ORDER_NOT_FOUND,
    TERMINAL_NOT_IN_PDV_MODE,
)
from paydesk.orders.response_schemas import EXAMPLE, FOUND, ORDER, example_at
from paydesk.orders.schemas import CancelRequest, OrderRequest

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="POST",
        path="/v1/orders",
        name="create_order",
        summary="Create an order for a terminal",
        surface="application",
        refuses_test_header=True,
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
        refuses_test_header=True,
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
        refuses_test_header=True,
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
        refuses_test_header=True,
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
)
