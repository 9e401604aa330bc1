"""Errors about print actions, each declared once."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

ACTION_NOT_FOUND = ErrorKind(
    "action_not_found",
    404,
    "The action does not exist.",
    advice="Check the id, and the token's seller and mode.",
)
CANNOT_CANCEL_ACTION = ErrorKind(
    "cannot_cancel_action",
    409,
    "The action can't be canceled: its terminal has it, or it has ended.",
    advice="Read `details`.",
)
