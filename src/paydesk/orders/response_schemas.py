"""JSON schemas and examples of the responses about orders."""

from __future__ import annotations

from typing import Any

from paydesk.core.ids import ORDER_ID_PATTERN, PAYMENT_ID_PATTERN, REFUND_ID_PATTERN
from paydesk.orders.status import STATES
from paydesk.orders.status_labels import EXTENDED

TIME = {"type": "string", "format": "date-time"}
TEXT = {"type": "string"}
STATUS = {
    "enum": list(EXTENDED.all),
    "description": 'The last two are used only with `order_statuses = "extended"`.',
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
        "integration_data": {"type": "object", "description": "As sent, with the application's id added."},
        "config": {"type": "object", "description": "As sent, with defaults filled in."},
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

COUNT = {"type": "string", "pattern": "^[0-9]+$"}
SEARCH_RESPONSE: dict[str, Any] = {
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


def example_at(status: str, detail: str, payment_detail: str) -> dict[str, Any]:
    """Return the example order in another state."""
    payment = {**EXAMPLE["transactions"]["payments"][0], "status": status, "status_detail": payment_detail}
    return {**EXAMPLE, "status": status, "status_detail": detail, "version": 2, "transactions": {"payments": [payment]}}
