"""Errors of refunds, reversals and unknown outcomes, each declared once."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

TRANSACTION_NOT_FOUND = ErrorKind("transaction_not_found", 404, "The order has no such payment.")
ORDER_ALREADY_REFUNDED = ErrorKind("order_already_refunded", 409, "The order is already fully refunded.")
CANNOT_REFUND_ORDER = ErrorKind("cannot_refund_order", 409, "The order cannot be refunded.")
REFUND_PERIOD_EXCEEDED = ErrorKind(
    "refund_period_exceeded", 409, "The refund period is over. An order can be refunded for 90 days after its payment."
)
PARTIAL_REFUND_FORBIDDEN_WITH_TIPS = ErrorKind(
    "partial_refund_forbidden_with_tips", 403, "An order with a tip can only be refunded in full."
)
REFUND_AMOUNT_EXCEEDS = ErrorKind(
    "refund_amount_exceeds", 400, "The amount exceeds what remains of the payment after earlier refunds."
)
REFUND_IN_PROGRESS = ErrorKind(
    "refund_in_progress", 409, "Another refund of the order is in progress. Retry when it has an outcome."
)
REFUND_ERRORS = (
    TRANSACTION_NOT_FOUND,
    ORDER_ALREADY_REFUNDED,
    CANNOT_REFUND_ORDER,
    REFUND_PERIOD_EXCEEDED,
    PARTIAL_REFUND_FORBIDDEN_WITH_TIPS,
    REFUND_AMOUNT_EXCEEDS,
    REFUND_IN_PROGRESS,
)
"""What a refund can be refused with, in the order of the checks."""
REVERSAL_NOT_FOUND = ErrorKind("reversal_not_found", 404, "The reversal does not exist.")
CANNOT_RESOLVE_REVERSAL = ErrorKind(
    "cannot_resolve_reversal", 409, "An operator cannot resolve the reversal in its current status."
)
CANNOT_RESOLVE_ORDER = ErrorKind(
    "cannot_resolve_order", 409, "An operator cannot resolve the order in its current status."
)
