"""The status labels that applications and operators see: the six statuses, or eight with extended statuses.

The setting `order_statuses` chooses them. The table of moves, the rows and the device interface do not depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status import CHECK_ON_TERMINAL, EXPIRED, STATUSES, Move

if TYPE_CHECKING:
    from paydesk.platform.settings import Settings


@dataclass(frozen=True, slots=True)
class Labels:
    """One set of labels. `extended` has those by `status_detail` that differ from the status."""

    extended: Mapping[str, str]

    @property
    def all(self) -> tuple[str, ...]:
        """Every label."""
        return (*STATUSES, *self.extended.values())

    def of(self, order: Order) -> str:
        """Return the label of the order's status, and of its payment's."""
        return self.extended.get(order.status_detail, order.status)

    def of_status(self, status: str, status_detail: str) -> str:
        """Return the label of a status with its detail."""
        return self.extended.get(status_detail, status)

    def action_of(self, move: Move, order: Order) -> str:
        """Return the notification's action for the move that brought the order to its state."""
        extended = self.extended.get(order.status_detail)
        return move.action if extended is None else f"order.{extended}"

    def conditions_of(self, label: str) -> list[tuple[str, str]]:
        """Return which rows have the label, as conditions: a status or a detail, and details that they don't have."""
        for detail, extended in self.extended.items():
            if extended == label:
                return [("status_detail", detail)]
        return [("status", label), *(("not_status_detail", detail) for detail in self.extended)]


PLAIN = Labels({})
EXTENDED = Labels({EXPIRED.detail: "expired", CHECK_ON_TERMINAL.detail: "action_required"})

_BY_SETTING = {"plain": PLAIN, "extended": EXTENDED}


def labels_of(settings: Settings) -> Labels:
    """Return the labels that the setting `order_statuses` chooses."""
    return _BY_SETTING[settings.order_statuses]
