"""What follows from the acquirer's word about a payment. Pure: each rule is a function, its test a table."""

from __future__ import annotations

from typing import Literal

from paydesk.orders import status
from paydesk.orders.order import Order
from paydesk.payments.acquirer import Approved, Declined, NotFound, NotSent, Truth, Unknown

Inquired = Literal["approve", "decline", "reverse", "again"]
Reversed = Literal["reverse", "unfounded", "again"]


def of_outcome(truth: Truth, order: Order, *, waited_ms: int, not_found_ms: int) -> Inquired:
    """What becomes of an order whose outcome nobody knew.

    An approval of another amount is nobody's payment: it is undone, as is what can't be found for so long.
    """
    match truth:
        case Approved():
            return "approve" if truth.amount_minor == order.amount_minor else "reverse"
        case Declined():
            return "decline"
        case NotFound():
            return "reverse" if waited_ms >= not_found_ms else "again"
        case Unknown() | NotSent():
            return "again"


def of_late_approval(truth: Truth, order: Order, reference_id: str, *, waited_ms: int, not_found_ms: int) -> Reversed:
    """What becomes of a late approval that a terminal called `reference_id`.

    Beside a payment that the order has, only what goes by another reference is given back: never that payment.
    """
    if isinstance(truth, Unknown | NotSent) or order.status in status.LIVE:
        return "again"
    if order.paid_ms is not None:
        known = truth.reference_id if isinstance(truth, Approved) else ""
        return "unfounded" if reference_id in ("", order.reference_id or known) else "reverse"
    if isinstance(truth, NotFound):
        return "reverse" if waited_ms >= not_found_ms else "again"
    return "unfounded" if isinstance(truth, Declined) else "reverse"


def detail_of(declined: Declined) -> str:
    """The detail of a failed order; what the interface has no word for is `rejected_other_reason`."""
    return declined.detail if declined.detail in status.FAILED else "rejected_other_reason"
