"""Errors of the terminals' operations."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

TERMINAL_NOT_FOUND = ErrorKind(
    "terminal_not_found", 404, "The seller has no such terminal. Live and test terminals are separate."
)
TERMINAL_BUSY = ErrorKind("terminal_busy", 409, "The operating_mode can't change while the terminal has a live order.")
PRECONDITION_FAILED = ErrorKind(
    "precondition_failed", 412, "A point of sale can have at most one terminal in mode PDV."
)
