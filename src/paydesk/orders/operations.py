"""The rows of the interface table that orders answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from paydesk.errors import PROPERTY_VALUE, UNSUPPORTED_PROPERTIES
from paydesk.ids import ORDER_ID_PATTERN, PAYMENT_ID_PATTERN, REFUND_ID_PATTERN
from paydesk.operation import Operation, Query
from paydesk.orders import handlers, refunds, searching, simulated_payment, wording
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
from paydesk.orders.status import STATES

TIME = {"type": "string", "format": "date-time"}
TEXT = {"type": "string"}
STATUS = {
    "enum": list(wording.EVER_TOLD),
    "description": "The last two are told only where the service is set to extended statuses.",
}
PAYMENT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "amount", "status", "status_detail"],
    "properties": {
        "id": {"type": "string", "pattern": PAYMENT_ID_PATTERN},
        "amount": TEXT,
        "status": STATUS,
        "status_detail": {"enum": list(dict.fromkeys(state.payment_detail for state in STATES))},
        "paid_amount": TEXT,
        "reference_id": TEXT,
        "payment_method": {
            "type": "object",
            "properties": {"id": TEXT, "type": TEXT, "installments": {"type": "integer"}},
        },
        "card": {
            "type": "object",
            "properties": {"first_digits": TEXT, "last_digits": TEXT, "entry_mode": TEXT},
        },
        "authorization_code": TEXT,
        "tip_amount": TEXT,
        "refunded_amount": TEXT,
        "origin": {"enum": ["customer", "terminal", "acquirer", "network", "service"]},
    },
}
REFUND: dict[str, Any] = {
    "type": "object",
    "required": ["id", "transaction_id", "amount", "status", "created_date"],
    "properties": {
        "id": {"type": "string", "pattern": REFUND_ID_PATTERN},
        "transaction_id": {"type": "string", "pattern": PAYMENT_ID_PATTERN},
        "reference_id": TEXT,
        "amount": TEXT,
        "status": {"enum": ["processing", "processed", "failed"]},
        "created_date": TIME,
    },
}
ORDER: dict[str, Any] = {
    "type": "object",
    "required": [
        "id",
        "type",
        "processing_mode",
        "user_id",
        "expiration_time",
        "total_amount",
        "country_code",
        "currency",
        "status",
        "status_detail",
        "live_mode",
        "version",
        "created_date",
        "last_updated_date",
        "integration_data",
        "config",
        "transactions",
    ],
    "properties": {
        "id": {"type": "string", "pattern": ORDER_ID_PATTERN},
        "type": {"const": "point"},
        "processing_mode": {"const": "automatic"},
        "user_id": TEXT,
        "external_reference": TEXT,
        "description": TEXT,
        "expiration_time": TEXT,
        "total_amount": TEXT,
        "country_code": TEXT,
        "currency": TEXT,
        "status": STATUS,
        "status_detail": {"enum": list(dict.fromkeys(state.detail for state in STATES))},
        "live_mode": {"type": "boolean"},
        "version": {"type": "integer", "minimum": 1},
        "created_date": TIME,
        "last_updated_date": TIME,
        "integration_data": {"type": "object", "description": "As it was sent, with the application's id."},
        "config": {"type": "object", "description": "As it was sent, with defaults written out."},
        "transactions": {
            "type": "object",
            "required": ["payments"],
            "properties": {
                "payments": {"type": "array", "items": PAYMENT, "minItems": 1, "maxItems": 1},
                "refunds": {"type": "array", "items": REFUND, "minItems": 1},
            },
        },
    },
}
REFUND_ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["id", "status", "status_detail", "transactions"],
    "properties": {
        "id": {"type": "string", "pattern": ORDER_ID_PATTERN},
        "status": {"enum": list(wording.EVER_TOLD)},
        "status_detail": {"enum": list(dict.fromkeys(state.detail for state in STATES))},
        "transactions": {
            "type": "object",
            "required": ["refunds"],
            "properties": {"refunds": {"type": "array", "items": REFUND, "minItems": 1, "maxItems": 1}},
        },
    },
}

COUNT = {"type": "string", "pattern": "^[0-9]+$"}
FOUND: dict[str, Any] = {
    "type": "object",
    "required": ["data", "paging"],
    "properties": {
        "data": {"type": "array", "items": ORDER},
        "paging": {
            "type": "object",
            "required": ["total", "total_pages", "offset", "limit"],
            "properties": {"total": COUNT, "total_pages": COUNT, "offset": COUNT, "limit": COUNT},
        },
    },
}

EXAMPLE: dict[str, Any] = {
    "id": "ORD01J67CQQH5904WDBVZEM4JMEP3",
    "type": "point",
    "processing_mode": "automatic",
    "user_id": "1160535239",
    "external_reference": "ext_ref_1234",
    "description": "Smartphone",
    "expiration_time": "PT16M",
    "total_amount": "24.90",
    "country_code": "BRA",
    "currency": "BRL",
    "status": "created",
    "status_detail": "created",
    "live_mode": True,
    "version": 1,
    "created_date": "2026-01-31T14:26:42.109Z",
    "last_updated_date": "2026-01-31T14:26:42.109Z",
    "integration_data": {"application_id": "3676047501096810", "platform_id": "dev_1"},
    "config": {
        "point": {"terminal_id": "NEWLAND_N950__N950NCB801293324", "print_on_terminal": "no_ticket"},
        "payment_method": {"default_type": "credit_card"},
    },
    "transactions": {
        "payments": [
            {"id": "PAY01J67CQQH5904WDBVZEM4JMEP3", "amount": "24.90", "status": "created", "status_detail": "created"}
        ]
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


def _at(status: str, detail: str, payment_detail: str) -> dict[str, Any]:
    payment = {**EXAMPLE["transactions"]["payments"][0], "status": status, "status_detail": payment_detail}
    return {**EXAMPLE, "status": status, "status_detail": detail, "version": 2, "transactions": {"payments": [payment]}}


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
        touches=handlers.terminal_of_new,
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
        touches=handlers.order_of,
        body=CancelRequest,
        body_required=False,
        headers=(
            Query(
                "X-Allow-Cancelable-Status",
                {"type": "string", "enum": ["at_terminal"]},
                "Asks for a cancel at the terminal; ignored while the order is created.",
            ),
        ),
        path_pattern=ORDER_ID_PATTERN,
        answer=ORDER,
        example=_at("canceled", "canceled", "canceled_by_api"),
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
        touches=handlers.order_of,
        status=201,
        body=RefundRequest,
        body_required=False,
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
