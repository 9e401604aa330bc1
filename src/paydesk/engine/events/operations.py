"""The operation of the event feed."""

from __future__ import annotations

from typing import Any

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.engine.events import handlers
from paydesk.engine.events.cursors import CHARACTERS_MAX
from paydesk.engine.events.errors import EVENTS_NO_LONGER_KEPT
from paydesk.engine.events.schemas import EventPage
from paydesk.platform.operation import WAIT, Operation, Query
from paydesk.platform.rows import Rows

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
    Rows("application").get(
        "/v1/events",
        "read_events",
        handlers.read,
        description=(
            "The events that webhooks deliver, for clients that poll instead: all events of the orders that the"
            " application created for the seller, live or test as the token is, oldest first. A client that follows"
            " `next` gets each event exactly once, and an order's events in order of `version`. Events are kept for"
            " 30 days."
        ),
        transaction="none",
        query=(
            Query(
                "after",
                {"type": "string", "maxLength": CHARACTERS_MAX},
                "The `next` of an earlier answer. Without it the page starts with the oldest event that is kept.",
            ),
            WAIT,
        ),
        answer=EventPage,
        example=EXAMPLE,
        errors=(PROPERTY_VALUE, EVENTS_NO_LONGER_KEPT),
    ),
)
