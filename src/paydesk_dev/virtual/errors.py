"""Errors of the API of virtual terminals."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

ACTION_NOT_POSSIBLE = ErrorKind(
    "action_not_possible",
    409,
    "The terminal's screen does not take this action.",
    advice="`details` names the screen and what it takes.",
    repeat="later",
)
TOO_MANY_TERMINALS = ErrorKind(
    "too_many_terminals",
    409,
    "The seller already has the maximum number of virtual terminals.",
    advice="Delete one that is no longer used.",
    repeat="later",
)
