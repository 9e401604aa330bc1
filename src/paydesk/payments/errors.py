"""Errors of refunds, reversals and unknown outcomes, each declared once."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

TRANSACTION_NOT_FOUND = ErrorKind("transaction_not_found", 404, "The order has no such payment.")
ORDER_ALREADY_REFUNDED = ErrorKind("order_already_refunded", 409, "All of the order is given back already.")
CANNOT_REFUND_ORDER = ErrorKind("cannot_refund_order", 409, "The order cannot be refunded.")
REFUND_PERIOD_EXCEEDED = ErrorKind(
    "refund_period_exceeded", 409, "The payment is too long ago; an order can be refunded for 90 days."
)
PARTIAL_REFUND_FORBIDDEN_WITH_TIPS = ErrorKind(
    "partial_refund_forbidden_with_tips", 403, "An order with a tip can only be refunded as a whole."
)
REFUND_AMOUNT_EXCEEDS = ErrorKind("refund_amount_exceeds", 400, "That is more than is left of the payment.")
REFUND_IN_PROGRESS = ErrorKind(
    "refund_in_progress", 409, "Another refund of the order is under way, and what is left depends on it."
)
REVERSAL_NOT_FOUND = ErrorKind("reversal_not_found", 404, "There is no such reversal.")
CANNOT_RESOLVE_REVERSAL = ErrorKind("cannot_resolve_reversal", 409, "The reversal is not an operator's to end.")
CANNOT_RESOLVE_ORDER = ErrorKind("cannot_resolve_order", 409, "The order is not an operator's to end.")
