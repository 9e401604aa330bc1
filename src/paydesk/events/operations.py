"""The row of the interface table that the feed answers."""

from __future__ import annotations

from typing import Any

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.events import handlers
from paydesk.events.cursors import CHARACTERS_MAX
from paydesk.events.errors import EVENTS_NO_LONGER_KEPT
from paydesk.operation import Operation, Query

TEXT = {"type": "string"}
EVENT: dict[str, Any] = {
    "type": "object",
    "description": "The same as a webhook's body.",
    "required": [
        "id",
        "action",
        "api_version",
        "application_id",
        "type",
        "user_id",
        "live_mode",
        "date_created",
        "data",
    ],
    "properties": {
        "id": {"type": "string", "format": "uuid"},
        "action": TEXT,
        "api_version": {"const": "v1"},
        "application_id": TEXT,
        "type": {"const": "order"},
        "user_id": TEXT,
        "live_mode": {"type": "boolean"},
        "date_created": {"type": "string", "format": "date-time"},
        "data": {"type": "object"},
    },
}
EXAMPLE: dict[str, Any] = {
    "data": [
        {
            "id": "0b8fa5f2-6f8c-4d1f-9a55-0d6e0f4d2c11",
            "action": "order.created",
            "api_version": "v1",
            "application_id": "3676047501096810",
            "type": "order",
            "user_id": "1160535239",
            "live_mode": True,
            "date_created": "2026-01-31T14:26:42.109Z",
            "data": {
                "id": "ORD01J67CQQH5904WDBVZEM4JMEP3",
                "type": "point",
                "external_reference": "ext_ref_1234",
                "status": "created",
                "status_detail": "created",
                "version": 1,
                "transactions": {
                    "payments": [
                        {
                            "id": "PAY01J67CQQH5904WDBVZEM4JMEP3",
                            "amount": "24.90",
                            "status": "created",
                            "status_detail": "created",
                        }
                    ]
                },
            },
        }
    ],
    "next": "MS4xMTYwNTM1MjM5LjM2NzYwNDc1MDEwOTY4MTAuMS4x",
}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="GET",
        path="/v1/events",
        name="read_events",
        summary="Read what happened",
        description=(
            "What webhooks tell, to be fetched instead: every event of the orders that the application made for the"
            " seller, live or test as the token is, the oldest first, each exactly once to who follows `next`. An"
            " order's events come in order of `version`. They are kept for 30 days."
        ),
        surface="application",
        scope="read",
        handler=handlers.read,
        transaction="none",
        query=(
            Query(
                "after",
                {"type": "string", "maxLength": CHARACTERS_MAX},
                "The `next` of an earlier answer; left out, the oldest event that is kept comes first.",
            ),
            handlers.WAIT,
        ),
        answer={
            "type": "object",
            "required": ["data", "next"],
            "properties": {
                "data": {"type": "array", "items": EVENT, "maxItems": handlers.EVENTS_MAX},
                "next": {"type": "string", "description": "Good for ever, or until what comes after it is too old."},
            },
        },
        example=EXAMPLE,
        errors=(PROPERTY_VALUE, EVENTS_NO_LONGER_KEPT),
    ),
)
