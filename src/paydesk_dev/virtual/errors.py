"""Errors of the API of virtual terminals."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

ACTION_NOT_POSSIBLE = ErrorKind(
    "action_not_possible",
    409,
    "The terminal's screen does not take this action.",
    advice="Read the screen; `details` names it and what it takes.",
)
TOO_MANY_TERMINALS = ErrorKind(
    "too_many_terminals",
    409,
    "The seller already has the maximum number of virtual terminals.",
    advice="Delete a virtual terminal that is no longer used, then create another.",
)
