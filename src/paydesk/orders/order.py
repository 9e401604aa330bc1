"""The row of an order."""

from __future__ import annotations

import msgspec

from paydesk.orders import status
from paydesk.orders.status import State


class Order(msgspec.Struct, frozen=True):
    """One row of `orders`: the order with its one payment. Its columns in their order.

    A struct, since one is made for every request: a frozen dataclass of so many fields takes ten times as long.
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
        """The order's ULID without prefix, which is its lease's id too."""
        return self.order_id[3:]

    @property
    def payment_id(self) -> str:
        """The id of its one payment, under which the acquirer knows it."""
        return f"PAY{self.ulid}"

    @property
    def state(self) -> State:
        """Where the order stands in the table of moves."""
        return State(self.status, self.status_detail, self.payment_status_detail)  # type: ignore[arg-type]  # a row's

    def is_overdue(self, now_ms: int) -> bool:
        """Whether its time ran out while it still could expire."""
        return self.expires_ms <= now_ms and self.permitted_ms is None and self.state in status.EXPIRE.sources
