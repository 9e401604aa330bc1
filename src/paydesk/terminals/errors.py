"""Errors about terminals, each declared once."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

TERMINAL_NOT_FOUND = ErrorKind("terminal_not_found", 404, "There is no such terminal.")
TERMINAL_BUSY = ErrorKind("terminal_busy", 409, "A terminal that holds an order can't change its operating_mode.")
PRECONDITION_FAILED = ErrorKind("precondition_failed", 412, "A point of sale has at most one terminal in mode PDV.")
