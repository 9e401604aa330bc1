"""The row of a refund."""

from __future__ import annotations

from typing import Literal

import msgspec


class Refund(msgspec.Struct, frozen=True):
    """One row of `refunds`: money that is to go back, is back, or does not go back. Its columns in their order.

    `refund_id` is its key at the acquirer; the key of the request that asked for it is its `application_id`'s.
    `attempts` may each have reached the acquirer but for those that are `unsent`.
    """

    seller_id: int
    refund_id: str
    order_id: str
    application_id: int
    live: int
    idempotency_key: str
    amount: str
    amount_minor: int
    status: Literal["processing", "processed", "failed"]
    created_ms: int
    attempts: int
    unsent: int = 0
    reference_id: str | None = None

    @property
    def payment_id(self) -> str:
        """Of which payment it is."""
        return f"PAY{self.order_id[3:]}"
