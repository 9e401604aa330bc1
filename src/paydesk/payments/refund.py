"""A refund: its row, and its form in responses and notifications."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from paydesk.core.clock import rfc3339
from paydesk.orders.order import Order


class Refund(msgspec.Struct, frozen=True):
    """One row of `refunds`, with its columns in order.

    `refund_id` is its idempotency key at the acquirer; `idempotency_key` is that of the application's request. Every
    attempt may have reached the acquirer, except the `unsent` ones.
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
        """Return the id of the refunded payment."""
        return f"PAY{self.order_id[3:]}"

    @property
    def was_never_sent(self) -> bool:
        """Return whether no attempt reached the acquirer, given that the current one did not."""
        return self.attempts == self.unsent + 1


def refund_response(order: Order, refund: Refund) -> dict[str, Any]:
    """Return the response to a refund request: the order's status and this refund alone."""
    return {
        "id": order.order_id,
        "status": order.status,
        "status_detail": order.status_detail,
        "transactions": {"refunds": [_document(refund)]},
    }


def with_refund(refunds: str | None, refund: Refund) -> str:
    """Return the order's refunds, as JSON, with this one added or replaced."""
    others = msgspec.json.decode(refunds) if refunds is not None else []
    place = next((place for place, other in enumerate(others) if other["id"] == refund.refund_id), len(others))
    return msgspec.json.encode([*others[:place], _document(refund), *others[place + 1 :]]).decode()


def without_refund(refunds: str | None, refund: Refund) -> str | None:
    """Return the order's refunds, as JSON, without this one; None if none remains."""
    others = [other for other in msgspec.json.decode(refunds or "[]") if other["id"] != refund.refund_id]
    return msgspec.json.encode(others).decode() if others else None


def _document(refund: Refund) -> dict[str, Any]:
    reference = {"reference_id": refund.reference_id} if refund.reference_id is not None else {}
    return {
        "id": refund.refund_id,
        "transaction_id": refund.payment_id,
        **reference,
        "amount": refund.amount,
        "status": refund.status,
        "created_date": rfc3339(refund.created_ms),
    }
