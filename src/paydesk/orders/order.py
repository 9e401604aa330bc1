"""An order's row."""

from __future__ import annotations

import msgspec

from paydesk.orders import status
from paydesk.orders.status import State


class Order(msgspec.Struct, frozen=True):
    """One row of `orders`, the order with its one payment, with its columns in order.

    A msgspec struct because one is created for every request; a frozen dataclass of this size takes ten times as long.
    """

    seller_id: int
    order_id: str
    application_id: int
    live: int
    terminal_id: str
    status: str
    status_detail: str
    payment_status_detail: str
    version: int
    currency: str
    country: str
    amount: str
    amount_minor: int
    external_reference: str | None
    description: str | None
    expiration_time: str
    config: str
    integration_data: str
    created_ms: int
    updated_ms: int
    expires_ms: int
    permitted_ms: int | None = None
    cancel_requested_ms: int | None = None
    paid_ms: int | None = None
    paid_minor: int | None = None
    tip_minor: int | None = None
    refunded_minor: int = 0
    reference_id: str | None = None
    authorization_code: str | None = None
    payment_method: str | None = None
    card: str | None = None
    origin: str | None = None
    refunding_minor: int = 0
    refunds: str | None = None
    detached_ms: int | None = None

    @property
    def ulid(self) -> str:
        """Return the order's ULID without prefix, which is also its lease's id."""
        return self.order_id[3:]

    @property
    def payment_id(self) -> str:
        """Return the id of the order's payment, also its key at the acquirer."""
        return f"PAY{self.ulid}"

    @property
    def state(self) -> State:
        """Return the order's state in the table of moves."""
        return State(self.status, self.status_detail, self.payment_status_detail)  # type: ignore[arg-type]  # a row's

    def is_overdue(self, now_ms: int) -> bool:
        """Return whether the order should be expired: its time is over and no authorization permit was issued."""
        return self.expires_ms <= now_ms and self.permitted_ms is None and self.state in status.EXPIRE.sources
