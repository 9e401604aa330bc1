"""The status labels that applications and operators see: the six statuses, or eight with extended statuses.

A process chooses once, at its start, by the setting `order_statuses`. The table of moves, the rows and the device
interface do not depend on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from paydesk.orders.status import CHECK_ON_TERMINAL, EXPIRED, STATUSES

if TYPE_CHECKING:
    from paydesk.orders.order import Order
    from paydesk.orders.status import Move

OrderStatuses = Literal["plain", "extended"]

EXTENDED = {EXPIRED.detail: "expired", CHECK_ON_TERMINAL.detail: "action_required"}
"""Extended statuses by `status_detail`."""

ALL_LABELS = (*STATUSES, *EXTENDED.values())

_extended: dict[str, str] = {}


def choose(order_statuses: OrderStatuses) -> None:
    """Set the labels of this process."""
    _extended.clear()
    if order_statuses == "extended":
        _extended.update(EXTENDED)


def labels() -> tuple[str, ...]:
    """Return the labels of this process."""
    return (*STATUSES, *_extended.values())


def status_of(order: Order) -> str:
    """Return the label of the order's status, and of its payment's."""
    return _extended.get(order.status_detail, order.status)


def label(status: str, status_detail: str) -> str:
    """Return the label of a status with its detail."""
    return _extended.get(status_detail, status)


def action_of(move: Move, order: Order) -> str:
    """Return the notification's action for the move that brought the order to its state."""
    extended = _extended.get(order.status_detail)
    return move.action if extended is None else f"order.{extended}"


def details_of(label: str) -> tuple[str | None, tuple[str, ...]]:
    """Return which rows have the label: their one detail, or None; and the details that have another label."""
    for detail, extended in _extended.items():
        if extended == label:
            return detail, ()
    return None, tuple(_extended)
