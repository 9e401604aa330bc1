"""Errors of the terminals' operations."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

TERMINAL_NOT_FOUND = ErrorKind(
    "terminal_not_found",
    404,
    "The seller has no such terminal. Live and test terminals are separate.",
    advice="Use a terminal of GET /terminals/v1/list with the same token.",
)
TERMINAL_BUSY = ErrorKind(
    "terminal_busy",
    409,
    "The terminal can't be changed while it has a live order or a print action.",
    advice="Wait for that to end, or cancel it.",
    repeat="later",
)
TERMINAL_ALREADY_PAIRED = ErrorKind(
    "terminal_already_paired",
    409,
    "The terminal is paired already.",
    advice="Send `replace`: true. If it belongs to another seller, it must be deleted there first.",
)
PAIRING_NOT_FOUND = ErrorKind(
    "pairing_not_found",
    404,
    "No terminal shows this code. Codes are valid for 5 minutes and can be used once.",
    advice="Compare the code with the terminal's, which shows a new one after 5 minutes.",
)
AUTHORIZATION_PENDING = ErrorKind(
    "authorization_pending",
    400,
    "No operator has approved the pairing yet.",
    advice="Poll again after the interval.",
    repeat="later",
)
SLOW_DOWN = ErrorKind(
    "slow_down",
    400,
    "The terminal polls too often. Add 5 seconds to its interval.",
    advice="Add 5 seconds to the interval.",
    repeat="later",
)
EXPIRED_TOKEN = ErrorKind(
    "expired_token",
    400,
    "The device_code is unknown or has expired, or its device token was used already.",
    advice="Begin a new pairing.",
)
ACCESS_DENIED = ErrorKind(
    "access_denied",
    400,
    "An operator has denied the pairing.",
    advice="Stop polling, and show that the pairing was denied.",
)
PRECONDITION_FAILED = ErrorKind(
    "precondition_failed",
    412,
    "A point of sale can have at most one terminal in mode PDV.",
    advice="Set the other terminal to another mode.",
    repeat="later",
)
