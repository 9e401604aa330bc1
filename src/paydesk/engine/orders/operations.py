"""The operations on orders."""

from __future__ import annotations

from paydesk.core.errors import PROPERTY_VALUE, UNSUPPORTED_PROPERTIES
from paydesk.core.ids import ORDER_ID_PATTERN
from paydesk.engine.orders import handlers
from paydesk.engine.orders.errors import (
    ALREADY_QUEUED_ORDER_ON_TERMINAL,
    CANNOT_CANCEL_ORDER,
    FORBIDDEN_CHECKING_TERMINAL_OWNER,
    ORDER_ALREADY_CANCELED,
    ORDER_NOT_FOUND,
    TERMINAL_NOT_IN_PDV_MODE,
)
from paydesk.engine.orders.presentation import OrderDocument, OrderPage, example_order
from paydesk.engine.orders.schemas import CancelRequest, OrderRequest
from paydesk.engine.orders.search import query as searching
from paydesk.platform.operation import Operation, Query
from paydesk.platform.rows import Rows

EXAMPLE = example_order()
CANCELED_EXAMPLE = example_order(
    version=2, status="canceled", status_detail="canceled", payment_status_detail="canceled_by_api"
)
ALLOW_CANCELABLE_STATUS = Query(
    "X-Allow-Cancelable-Status",
    {"type": "string", "examples": ["at_terminal"]},
    "Statuses, separated by commas. `at_terminal` requests a cancel at the terminal; a created order ignores it.",
    canonical=handlers.canonical_cancelable,
)

_ORDERS = Rows("application", "/v1/orders", refuses_test_header=True)
ORDER = _ORDERS.below("/{order_id}", path_pattern=ORDER_ID_PATTERN, errors=(ORDER_NOT_FOUND,))

OPERATIONS: tuple[Operation, ...] = (
    _ORDERS.post(
        "",
        "create_order",
        handlers.create,
        idempotent=True,
        optimistic_handler=handlers.create_on_free_terminal,
        conflict_keys=handlers.terminal_key,
        status=201,
        body=OrderRequest,
        answer=OrderDocument,
        example=EXAMPLE,
        errors=(FORBIDDEN_CHECKING_TERMINAL_OWNER, TERMINAL_NOT_IN_PDV_MODE, ALREADY_QUEUED_ORDER_ON_TERMINAL),
    ),
    _ORDERS.get(
        "",
        "search_orders",
        handlers.search,
        description=(
            "Finds the seller's orders in the token's mode, test or live, of all applications. Includes every order"
            " committed before the search. `total` is exact."
        ),
        transaction="heavy",
        query=searching.PARAMETERS,
        answer=OrderPage,
        example={"data": [EXAMPLE], "paging": {"total": "1", "total_pages": "1", "offset": "0", "limit": "50"}},
        errors=(UNSUPPORTED_PROPERTIES, PROPERTY_VALUE),
    ),
    ORDER.get("", "get_order", handlers.get, transaction="read", answer=OrderDocument, example=EXAMPLE),
    ORDER.post(
        "/cancel",
        "cancel_order",
        handlers.cancel,
        description=(
            "Cancels a created order at once. An order at its terminal needs the extra header: the response is 202, and"
            " the terminal is requested to release the order. It ends as canceled, or, if authorization was permitted"
            " before, with its outcome."
        ),
        further_statuses=(202,),
        idempotent=True,
        conflict_keys=handlers.order_key,
        body=CancelRequest,
        headers=(ALLOW_CANCELABLE_STATUS,),
        answer=OrderDocument,
        example=CANCELED_EXAMPLE,
        errors=(ORDER_ALREADY_CANCELED, CANNOT_CANCEL_ORDER),
    ),
)
