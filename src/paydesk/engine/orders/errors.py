"""Errors about orders, each declared once."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

CANCEL_AT_TERMINAL = "X-Allow-Cancelable-Status: at_terminal"
"""The header that requests the cancel of an order at its terminal."""

ORDER_NOT_FOUND = ErrorKind(
    "order_not_found",
    404,
    "The order does not exist.",
    advice="Check the id, and the token's seller and mode.",
)
FORBIDDEN_CHECKING_TERMINAL_OWNER = ErrorKind(
    "forbidden_checking_terminal_owner",
    403,
    "The terminal does not exist, or it belongs to another seller or to the other mode (test or live).",
    advice="Use a terminal of GET /terminals/v1/list with the same token.",
)
TERMINAL_NOT_IN_PDV_MODE = ErrorKind(
    "terminal_not_in_pdv_mode",
    409,
    "The terminal does not accept orders. Set its operating_mode to PDV or SELF_SERVICE.",
    advice="Set its mode with PATCH /terminals/v1/setup.",
    repeat="later",
)
ALREADY_QUEUED_ORDER_ON_TERMINAL = ErrorKind(
    "already_queued_order_on_terminal",
    409,
    "The terminal already has an order or a print action that is not finished.",
    advice="Wait for that to end, or cancel it; then retry with the same key.",
    repeat="later",
)
CANNOT_CANCEL_ORDER = ErrorKind(
    "cannot_cancel_order",
    409,
    "The order cannot be canceled in its current status.",
    advice="A cancel at the terminal needs the extra header; refund a paid order.",
)
ORDER_ALREADY_CANCELED = ErrorKind(
    "order_already_canceled",
    409,
    "The order is already canceled.",
    advice="No action is needed.",
)
