"""The rows of the interface table for terminals (`/device/v1`)."""

from __future__ import annotations

from typing import Any

from paydesk.core.errors import PROPERTY_VALUE, TOO_MANY_REQUESTS
from paydesk.device import leases, polling, results, sessions
from paydesk.device.errors import (
    CANCEL_NOT_REQUESTED,
    LEASE_NOT_FOUND,
    ORDER_CANCELED,
    ORDER_FINISHED,
    ORDER_GRANTED,
    ORDER_NOT_GRANTED,
    RESULT_CONFLICT,
    STALE_SESSION,
)
from paydesk.device.schemas import CancelResultRequest, HelloRequest, ProgressRequest, SessionRequest
from paydesk.operation import Operation, Query

TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
MODE = {"enum": ["PDV", "STANDALONE", "SELF_SERVICE", "UNDEFINED"]}
TERMINAL_ID, LEASE_ID = "NEWLAND_N950__N950NCB801293324", "01J67CQQH5904WDBVZEM4JMEP3"


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **optional}}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


ORDER_STANDS = _object({"order": _object({"id": TEXT, "status": TEXT, "status_detail": TEXT})})
AT_TERMINAL = {"order": {"id": f"ORD{LEASE_ID}", "status": "at_terminal", "status_detail": "at_terminal"}}

HELLO = Operation(
    method="POST",
    path="/device/v1/hello",
    name="device_hello",
    summary="Begin a terminal's session",
    surface="device",
    handler=sessions.hello,
    transaction="none",
    body=HelloRequest,
    answer=_object(
        {
            "terminal_id": TEXT,
            "operating_mode": MODE,
            "seller_name": TEXT,
            "currency": TEXT,
            "time": {"type": "string", "format": "date-time"},
            "leases": _array(
                _object(
                    {"lease_id": TEXT, "verdict": {"enum": ["resume", "forget", "abort", "report", "hold"]}},
                )
            ),
        }
    ),
    example={
        "terminal_id": TERMINAL_ID,
        "operating_mode": "PDV",
        "seller_name": "Corner shop",
        "currency": "BRL",
        "time": "2026-01-31T14:26:42.109Z",
        "leases": [{"lease_id": LEASE_ID, "verdict": "resume"}],
    },
    errors=(STALE_SESSION,),
    description="A new `boot_id` ends every session before it, for ever.",
)

NEXT = Operation(
    method="GET",
    path="/device/v1/next",
    name="device_next",
    summary="Wait for the next message to the terminal",
    further_statuses=(204,),
    surface="device",
    handler=polling.next_message,
    transaction="none",
    query=(
        Query("boot_id", {"type": "string", "format": "uuid"}, "The one of the session's hello.", required=True),
        polling.WAIT,
    ),
    answer=_object(
        {"type": {"enum": ["order", "cancel", "expired", "mode"]}},
        lease_id=TEXT,
        expires_date={"type": "string", "format": "date-time"},
        order={"type": "object"},
        operating_mode=MODE,
    ),
    example={
        "type": "order",
        "lease_id": LEASE_ID,
        "expires_date": "2026-01-31T14:42:42.109Z",
        "order": {
            "id": f"ORD{LEASE_ID}",
            "payment_id": f"PAY{LEASE_ID}",
            "amount": "24.90",
            "currency": "BRL",
            "print_on_terminal": "no_ticket",
        },
    },
    errors=(PROPERTY_VALUE, STALE_SESSION),
    description="204 without a body where there is nothing to tell in time, and where a newer poll has begun.",
)

ACKNOWLEDGE = Operation(
    method="POST",
    path="/device/v1/leases/{lease_id}/ack",
    name="device_acknowledge",
    summary="Acknowledge an order: it is at the terminal",
    surface="device",
    handler=leases.acknowledge,
    conflict_keys=leases.lease_of,
    body=SessionRequest,
    answer=ORDER_STANDS,
    example=AT_TERMINAL,
    errors=(STALE_SESSION, LEASE_NOT_FOUND, ORDER_CANCELED, ORDER_FINISHED),
)

PROGRESS = Operation(
    method="POST",
    path="/device/v1/leases/{lease_id}/progress",
    name="device_progress",
    summary="Tell how far a payment came, and ask for the grant to authorize",
    surface="device",
    handler=leases.progress,
    conflict_keys=leases.lease_of,
    body=ProgressRequest,
    answer=_object(
        {}, go={"type": "boolean"}, until={"type": "string", "format": "date-time"}, **ORDER_STANDS["properties"]
    ),
    example={"go": True, "until": "2026-01-31T14:28:10.002Z"},
    errors=(STALE_SESSION, LEASE_NOT_FOUND, ORDER_CANCELED),
    description="After the grant neither a cancel nor the expiry can win. Only with `go` may the acquirer be asked.",
)

CANCEL_RESULT = Operation(
    method="POST",
    path="/device/v1/leases/{lease_id}/cancel-result",
    name="device_cancel_result",
    summary="Answer a cancel message",
    surface="device",
    handler=leases.answer_cancel,
    conflict_keys=leases.lease_of,
    body=CancelResultRequest,
    answer=ORDER_STANDS,
    example={"order": {"id": f"ORD{LEASE_ID}", "status": "canceled", "status_detail": "canceled"}},
    errors=(STALE_SESSION, LEASE_NOT_FOUND, CANCEL_NOT_REQUESTED, ORDER_GRANTED, ORDER_NOT_GRANTED),
)

RESULT = Operation(
    method="PUT",
    path="/device/v1/leases/{lease_id}/results/{result_id}",
    name="device_result",
    summary="Report a payment's outcome",
    surface="device",
    handler=results.report,
    conflict_keys=leases.lease_of,
    raw_body=True,
    answer=_object({**ORDER_STANDS["properties"], "print": {"type": "boolean"}}),
    example={
        "order": {"id": f"ORD{LEASE_ID}", "status": "processed", "status_detail": "processed"},
        "print": True,
    },
    errors=(LEASE_NOT_FOUND, RESULT_CONFLICT, ORDER_FINISHED, TOO_MANY_REQUESTS),
    description=(
        "A terminal reports until it is answered with 2xx, or with a 409 whose body says `recorded`. Earlier sessions"
        " and revoked device tokens may report too."
    ),
)

OPERATIONS: tuple[Operation, ...] = (HELLO, NEXT, ACKNOWLEDGE, PROGRESS, CANCEL_RESULT, RESULT)
