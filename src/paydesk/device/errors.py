"""Errors that terminals receive, each declared once."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

STALE_SESSION = ErrorKind("stale_session", 409, "The terminal was started again since; this session is over.")
LEASE_NOT_FOUND = ErrorKind("lease_not_found", 404, "This terminal has no such lease.")
ORDER_CANCELED = ErrorKind("order_canceled", 409, "The order is no longer this terminal's to charge.")
ORDER_FINISHED = ErrorKind("order_finished", 409, "The order has ended already; the result is recorded.")
RESULT_CONFLICT = ErrorKind("result_conflict", 409, "The result contradicts what is known; it is recorded.")
CANCEL_NOT_REQUESTED = ErrorKind("cancel_not_requested", 409, "Nobody asked for the order back; report a result.")
ORDER_NOT_GRANTED = ErrorKind(
    "order_not_granted", 409, "A cancel can be turned down only after the grant; give the order back."
)
ORDER_GRANTED = ErrorKind("order_granted", 409, "The order was granted; only a result or the acquirer ends it.")
