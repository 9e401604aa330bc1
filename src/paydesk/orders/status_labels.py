"""In which words an order is told to applications and operators: in the machine's own six statuses, or with two more.

The words are the node's, chosen once when a process starts (`order_statuses`). The machine, its rows and what
terminals are told are the same in either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from paydesk.orders.status import CHECK_ON_TERMINAL, EXPIRED, STATUSES

if TYPE_CHECKING:
    from paydesk.orders.order import Order
    from paydesk.orders.status import Move

OrderStatuses = Literal["plain", "extended"]

EXTENDED = {EXPIRED.detail: "expired", CHECK_ON_TERMINAL.detail: "action_required"}
"""The status of its own that a status_detail has where statuses are extended."""

ALL_LABELS = (*STATUSES, *EXTENDED.values())
"""Every status that may be told, whatever is set."""

_told: dict[str, str] = {}


def choose(order_statuses: OrderStatuses) -> None:
    """Tell orders in these words from now on."""
    _told.clear()
    if order_statuses == "extended":
        _told.update(EXTENDED)


def told() -> tuple[str, ...]:
    """The statuses that are told."""
    return (*STATUSES, *_told.values())


def status_of(order: Order) -> str:
    """The order's status, and its payment's, as they are told."""
    return _told.get(order.status_detail, order.status)


def status_told(status: str, status_detail: str) -> str:
    """A status and its detail, of an order or of what it was once, as they are told."""
    return _told.get(status_detail, status)


def action_of(move: Move, order: Order) -> str:
    """The action that tells of the move, which has brought the order to where it is."""
    further = _told.get(order.status_detail)
    return move.action if further is None else f"order.{further}"


def within(status: str) -> tuple[str | None, tuple[str, ...]]:
    """Which rows are told as `status`: those of one detail, or those of the status but for some details.

    The detail or None, and the details that are told as something else.
    """
    for detail, further in _told.items():
        if further == status:
            return detail, ()
    return None, tuple(_told)
