"""Operations of terminals (`/device/v1`)."""

from __future__ import annotations

from paydesk.core.errors import PROPERTY_VALUE, TOO_MANY_REQUESTS
from paydesk.core.ids import UUID_PATTERN
from paydesk.engine.device import leases, printing, results, sessions
from paydesk.engine.device.authorization import handlers as authorizing
from paydesk.engine.device.errors import (
    ACQUIRER_NOT_CONFIGURED,
    AUTHORIZATION_CONFLICT,
    CANCEL_NOT_REQUESTED,
    LEASE_NOT_FOUND,
    NOT_A_SERVICE_TERMINAL,
    ORDER_CANCELED,
    ORDER_FINISHED,
    ORDER_GRANTED,
    ORDER_NOT_GRANTED,
    RESULT_CONFLICT,
    STALE_SESSION,
)
from paydesk.engine.device.polling import handlers as polling
from paydesk.engine.device.rules.reports import Report
from paydesk.engine.device.schemas import (
    AuthorizationOutcome,
    AuthorizeRequest,
    CancelResultRequest,
    HelloAnswer,
    HelloRequest,
    Message,
    OrderState,
    PrintResultAnswer,
    PrintResultRequest,
    ProgressAnswer,
    ProgressRequest,
    ReportedOrder,
    SessionRequest,
)
from paydesk.engine.printing.errors import ACTION_NOT_FOUND
from paydesk.engine.terminals.schemas import EXAMPLE_TERMINAL_ID
from paydesk.platform.operation import WAIT, Operation, Query
from paydesk.platform.rows import Rows

LEASE_ID = "01J67CQQH5904WDBVZEM4JMEP3"
AT_TERMINAL = {"order": {"id": f"ORD{LEASE_ID}", "status": "at_terminal", "status_detail": "at_terminal"}}

_DEVICE = Rows("device", "/device/v1")
_LEASE = _DEVICE.below("/leases/{lease_id}", conflict_keys=leases.lease_keys, errors=(STALE_SESSION, LEASE_NOT_FOUND))

OPERATIONS: tuple[Operation, ...] = (
    _DEVICE.post(
        "/hello",
        "device_hello",
        sessions.hello,
        transaction="none",
        of_fleet=True,
        body=HelloRequest,
        answer=HelloAnswer,
        example={
            "terminal_id": EXAMPLE_TERMINAL_ID,
            "operating_mode": "PDV",
            "seller_name": "Corner shop",
            "currency": "BRL",
            "time": "2026-01-31T14:26:42.109Z",
            "leases": [{"lease_id": LEASE_ID, "verdict": "resume"}],
        },
        errors=(STALE_SESSION,),
        description="A new `boot_id` ends all earlier sessions permanently.",
    ),
    _DEVICE.get(
        "/next",
        "device_next",
        polling.next_message,
        further_statuses=(204,),
        transaction="none",
        query=(
            Query(
                "boot_id", {"type": "string", "format": "uuid"}, "The `boot_id` of the session's hello.", required=True
            ),
            WAIT,
        ),
        answer=Message,
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
        description="Answers 204 without a body if there is no message in time, or a newer poll has begun.",
    ),
    _LEASE.post(
        "/ack",
        "device_acknowledge",
        leases.acknowledge,
        summary="Acknowledge an order: it becomes at_terminal",
        body=SessionRequest,
        answer=OrderState,
        example=AT_TERMINAL,
        errors=(ORDER_CANCELED, ORDER_FINISHED),
    ),
    _LEASE.post(
        "/progress",
        "device_progress",
        leases.progress,
        body=ProgressRequest,
        answer=ProgressAnswer,
        example={"go": True, "until": "2026-01-31T14:28:10.002Z"},
        errors=(ORDER_CANCELED,),
        description=(
            "Only with `go` may the terminal send the payment to the acquirer. From then on neither a cancel nor the"
            " expiry ends the order."
        ),
    ),
    _LEASE.post(
        "/authorize",
        "device_authorize",
        authorizing.authorize,
        transaction="none",
        conflict_keys=None,
        body=AuthorizeRequest,
        answer=AuthorizationOutcome,
        example={
            "outcome": "approved",
            "status_detail": "accredited",
            "order": {"id": f"ORD{LEASE_ID}", "status": "processed", "status_detail": "processed"},
            "authorization_code": "831000",
            "reference_id": "115019989861",
        },
        errors=(
            NOT_A_SERVICE_TERMINAL,
            AUTHORIZATION_CONFLICT,
            ORDER_CANCELED,
            ORDER_FINISHED,
            ACQUIRER_NOT_CONFIGURED,
        ),
        description=(
            "Takes the authorization permit and asks the acquirer, which gets `encrypted_data`; it is not stored. The"
            " order ends by the acquirer's answer. Without one in 25 s the outcome is `unknown`, and the service"
            " inquires. Repeating the same request never charges twice; it returns what is known by then."
        ),
    ),
    _LEASE.post(
        "/cancel-result",
        "device_cancel_result",
        leases.answer_cancel,
        body=CancelResultRequest,
        answer=OrderState,
        example={"order": {"id": f"ORD{LEASE_ID}", "status": "canceled", "status_detail": "canceled"}},
        errors=(CANCEL_NOT_REQUESTED, ORDER_GRANTED, ORDER_NOT_GRANTED),
    ),
    _DEVICE.put(
        "/leases/{lease_id}/results/{result_id}",
        "device_result",
        results.report,
        conflict_keys=leases.lease_keys,
        raw_body=True,
        described_body=Report,
        answer=ReportedOrder,
        example={
            "order": {"id": f"ORD{LEASE_ID}", "status": "processed", "status_detail": "processed"},
            "print": True,
        },
        errors=(LEASE_NOT_FOUND, RESULT_CONFLICT, ORDER_FINISHED, TOO_MANY_REQUESTS),
        description=(
            "The terminal repeats a result until it gets a 2xx, or a 409 whose body has `recorded`. Earlier sessions"
            " may report too, and for 7 days revoked device tokens, of orders from before the revocation."
        ),
    ),
    _DEVICE.post(
        "/actions/{action_id}/result",
        "device_print_result",
        printing.report,
        conflict_keys=printing.terminal_key,
        body=PrintResultRequest,
        answer=PrintResultAnswer,
        example={"action": {"id": "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6", "status": "processed"}},
        path_pattern=UUID_PATTERN,
        errors=(STALE_SESSION, ACTION_NOT_FOUND),
        description="The first report counts. Of an action that was canceled meanwhile, the answer is 200 too.",
    ),
)
