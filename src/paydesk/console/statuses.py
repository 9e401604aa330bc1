"""The look of statuses: the colour, icon and word of each status of orders, refunds, reversals and deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Look(NamedTuple):
    """The colour class of a status, its icon in `static/icons.svg`, and its word."""

    colour: str
    icon: str
    word: str


OTHER = Look("off", "info", "")
"""The look of a status that is not in the tables."""

ORDERS: Mapping[str, Look] = {
    "created": Look("wait", "clock", "Created"),
    "at_terminal": Look("wait", "terminal", "At terminal"),
    "action_required": Look("look", "triangle", "Outcome unknown"),
    "processed": Look("ok", "check", "Processed"),
    "failed": Look("bad", "cross", "Failed"),
    "canceled": Look("off", "dash", "Canceled"),
    "expired": Look("off", "clock", "Expired"),
    "refunded": Look("back", "back", "Refunded"),
}
"""The look of an order by its status, also with extended statuses."""

_DETAILS: Mapping[str, Look] = {
    "cancellation_requested": Look("look", "clock", "Cancel requested"),
    "check_on_terminal": ORDERS["action_required"],
    "expired": ORDERS["expired"],
    "partially_refunded": Look("back", "back", "Partly refunded"),
}
"""The look of an order by its detail or that of its payment, where it says more than the status."""

REFUNDS: Mapping[str, Look] = {
    "processing": Look("wait", "clock", "Processing"),
    "processed": Look("ok", "check", "Refunded"),
    "failed": Look("bad", "cross", "Failed"),
}
REVERSALS: Mapping[str, Look] = {
    "pending": Look("look", "triangle", "Not confirmed"),
    "reversed": Look("back", "back", "Reversed"),
    "not_found": Look("off", "dash", "Never charged"),
}
CONFIRMATIONS: Mapping[str, Look] = {
    "provisional": Look("wait", "clock", "Waits for the terminal"),
    "confirming": Look("wait", "clock", "Not confirmed yet"),
    "confirmed": Look("ok", "check", "Confirmed"),
    "refused": Look("bad", "cross", "Refused"),
    "undone": Look("off", "back", "Undone"),
}
"""The look of the confirmation of a provisional approval."""
WAITING_REVERSALS: Mapping[str, Look] = {
    "reversal": REVERSALS["pending"],
    "refund": Look("look", "back", "Being refunded"),
    "person": Look("look", "triangle", "Needs a person"),
}
"""The look of a pending reversal, by what it waits for."""
INQUIRIES: Mapping[str, Look] = {
    "asking": Look("look", "clock", "Asking the acquirer"),
    "reversing": Look("look", "back", "Reversing the payment"),
    "ended": Look("off", "check", "Ended"),
}
DELIVERIES: Mapping[str, Look] = {
    "pending": Look("wait", "clock", "Pending"),
    "delivered": Look("ok", "check", "Delivered"),
    "exhausted": Look("bad", "cross", "Given up"),
    "superseded": Look("off", "dash", "Replaced by a newer one"),
    "withdrawn": Look("off", "dash", "Withdrawn"),
}
"""The look of a delivery by its status."""


def order_look(status: str, *details: str) -> Look:
    """Return how an order is shown, by its status and the details of the order and of its payment."""
    for detail in details:
        if detail in _DETAILS:
            return _DETAILS[detail]
    return ORDERS.get(status) or OTHER._replace(word=status)


def look_in(looks: Mapping[str, Look], status: str) -> Look:
    """Return the look of a status in a table; for an unknown status a neutral look with the status as its word."""
    return looks.get(status) or OTHER._replace(word=status)


def answer_look(status: int | None) -> Look:
    """Return how the HTTP status of a response is shown; None: there was no response."""
    if status is None:
        return Look("bad", "cross", "No answer")
    return Look("ok", "check", str(status)) if 200 <= status < 300 else Look("bad", "cross", str(status))


def recorded_look(status: int) -> Look:
    """Return how the HTTP status of the service's own response is shown."""
    if status < 400:
        return Look("ok", "check", str(status))
    return Look("look", "triangle", str(status)) if status < 500 else Look("bad", "cross", str(status))
