"""The operations on print actions."""

from __future__ import annotations

from paydesk.core.ids import UUID_PATTERN
from paydesk.engine.orders.errors import ALREADY_QUEUED_ORDER_ON_TERMINAL, TERMINAL_NOT_IN_PDV_MODE
from paydesk.engine.orders.schemas import CancelRequest
from paydesk.engine.printing import handlers
from paydesk.engine.printing.errors import ACTION_NOT_FOUND, CANNOT_CANCEL_ACTION
from paydesk.engine.printing.schemas import BODY_BYTES_MAX, ActionDocument, ActionRequest
from paydesk.engine.terminals.errors import TERMINAL_NOT_FOUND
from paydesk.engine.terminals.schemas import EXAMPLE_TERMINAL_ID
from paydesk.platform.operation import Operation
from paydesk.platform.rows import Rows

EXAMPLE = {
    "id": "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6",
    "type": "print",
    "external_reference": "coupon_1234",
    "status": "created",
    "config": {"point": {"terminal_id": EXAMPLE_TERMINAL_ID, "subtype": "custom"}},
    "created_date": "2026-01-31T14:26:42.109Z",
    "last_updated_date": "2026-01-31T14:26:42.109Z",
}

_ACTIONS = Rows("application", "/terminals/v1/actions", answer=ActionDocument)
_ACTION = _ACTIONS.below("/{action_id}", path_pattern=UUID_PATTERN, errors=(ACTION_NOT_FOUND,))

OPERATIONS: tuple[Operation, ...] = (
    _ACTIONS.post(
        "",
        "create_action",
        handlers.create,
        idempotent=True,
        conflict_keys=handlers.terminal_key,
        status=201,
        body=ActionRequest,
        body_bytes_max=BODY_BYTES_MAX,
        example=EXAMPLE,
        errors=(TERMINAL_NOT_FOUND, TERMINAL_NOT_IN_PDV_MODE, ALREADY_QUEUED_ORDER_ON_TERMINAL),
        description=(
            "The terminal prints `content` once it has neither an order nor another print action. An action that is not"
            f" printed within 15 minutes is canceled. The body has at most {BODY_BYTES_MAX:,} bytes. The content is"
            " deleted when the action ends."
        ),
    ),
    _ACTION.get("", "get_action", handlers.get, transaction="read", example={**EXAMPLE, "status": "processed"}),
    _ACTION.post(
        "/cancel",
        "cancel_action",
        handlers.cancel,
        idempotent=True,
        body=CancelRequest,
        example={**EXAMPLE, "status": "canceled"},
        errors=(CANNOT_CANCEL_ACTION,),
        description="Only an action that the terminal has not fetched, with status `created`.",
    ),
)
