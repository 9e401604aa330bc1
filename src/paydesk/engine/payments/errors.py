"""Errors of refunds, reversals, confirmations and unknown outcomes, each declared once."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

TRANSACTION_NOT_FOUND = ErrorKind(
    "transaction_not_found",
    404,
    "The order has no such payment.",
    advice="Take the payment's id from the order: PAY, then the order's id without ORD.",
)
ORDER_ALREADY_REFUNDED = ErrorKind(
    "order_already_refunded",
    409,
    "The order is already fully refunded.",
    advice="No action is needed.",
)
CANNOT_REFUND_ORDER = ErrorKind(
    "cannot_refund_order",
    409,
    "The order cannot be refunded.",
    advice="Read `details`. If the order is not paid yet, repeat when it is. A declined refund stays declined under its"
    " key: use a new one to try again.",
    repeat="later",
)
REFUND_PERIOD_EXCEEDED = ErrorKind(
    "refund_period_exceeded",
    409,
    "The refund period is over. An order can be refunded for 90 days after its payment.",
    advice="Pay the buyer back in another way.",
)
PARTIAL_REFUND_FORBIDDEN_WITH_TIPS = ErrorKind(
    "partial_refund_forbidden_with_tips",
    403,
    "An order with a tip can only be refunded in full.",
    advice="Send no body: the whole order is refunded.",
)
REFUND_AMOUNT_EXCEEDS = ErrorKind(
    "refund_amount_exceeds",
    400,
    "The amount exceeds what remains of the payment after earlier refunds.",
    advice="Refund at most what `details` says is left.",
)
REFUND_IN_PROGRESS = ErrorKind(
    "refund_in_progress",
    409,
    "Another refund of the order is in progress. Retry when it has an outcome.",
    advice="Retry when it has an outcome, with the same key.",
    repeat="later",
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
"""The refusals of a refund, in the order of the checks."""
REVERSAL_NOT_FOUND = ErrorKind(
    "reversal_not_found",
    404,
    "The reversal does not exist.",
    advice="Use an id from the list: deleted and old ones are not in it.",
)
CANNOT_RESOLVE_REVERSAL = ErrorKind(
    "cannot_resolve_reversal",
    409,
    "An operator cannot resolve the reversal in its current status.",
    advice="Read `details`: the reason, or when an operator may.",
    repeat="later",
)
REFUND_NOT_FOUND = ErrorKind(
    "refund_not_found",
    404,
    "The refund does not exist.",
    advice="Use an id from the list: deleted and old ones are not in it.",
)
CANNOT_RESOLVE_REFUND = ErrorKind(
    "cannot_resolve_refund",
    409,
    "An operator cannot resolve the refund in its current status.",
    advice="Read `details`: the reason, or when an operator may.",
    repeat="later",
)
CANNOT_RESOLVE_CONFIRMATION = ErrorKind(
    "cannot_resolve_confirmation",
    409,
    "An operator cannot resolve the confirmation in its current status.",
    advice="Only a payment that the acquirer refused to confirm is resolved, once.",
    repeat="later",
)
CANNOT_RESOLVE_ORDER = ErrorKind(
    "cannot_resolve_order",
    409,
    "An operator cannot resolve the order in its current status.",
    advice="Read `details`: the reason, or when an operator may.",
    repeat="later",
)
