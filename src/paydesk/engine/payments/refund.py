"""A refund: its row, its part of the order's row, and the response to its request."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from paydesk.core.response import Response
from paydesk.engine.orders.order import Order, OrderRefund, RefundStatus, refunds_of
from paydesk.engine.orders.presentation import (
    EXAMPLE_ORDER,
    OrderId,
    RefundDocument,
    Status,
    StatusDetail,
    example,
    refund_document,
)

KEYS_KEPT_DAYS_MIN = 120
"""An order can be refunded for 90 days after its payment, and a refund's idempotency key must outlive that."""


class Refund(msgspec.Struct, frozen=True):
    """One row of `refunds`, with its columns in order.

    `refund_id` is its idempotency key at the acquirer; `idempotency_key` is that of the application's request. Every
    attempt may have reached the acquirer, except the `unsent` attempts.
    """

    seller_id: int
    refund_id: str
    order_id: str
    application_id: int
    live: int
    idempotency_key: str
    amount: str
    amount_minor: int
    status: RefundStatus
    created_ms: int
    attempts: int
    unsent: int = 0
    reference_id: str | None = None
    payment_reference_id: str | None = None
    """The payment's reference when the refund was requested, or ""; None: a node of an earlier version requested it."""

    @property
    def payment_id(self) -> str:
        """Return the id of the refunded payment."""
        return f"PAY{self.order_id[3:]}"

    @property
    def in_order(self) -> OrderRefund:
        """Return the refund as its order's row has it."""
        return OrderRefund(self.refund_id, self.amount, self.status, self.created_ms, self.reference_id)

    @property
    def was_never_sent(self) -> bool:
        """Return whether no attempt reached the acquirer, given that the current one did not."""
        return self.attempts == self.unsent + 1


def with_refund(refunds: str | None, refund: Refund) -> str:
    """Return the order's column `refunds` with this refund added or replaced."""
    by_id = {other.id: other for other in refunds_of(refunds)} | {refund.refund_id: refund.in_order}
    return msgspec.json.encode(list(by_id.values())).decode()


def without_refund(refunds: str | None, refund: Refund) -> str | None:
    """Return the order's column `refunds` without this refund; None if none remains."""
    others = [other for other in refunds_of(refunds) if other.id != refund.refund_id]
    return msgspec.json.encode(others).decode() if others else None


class RefundTransactions(Response, frozen=True):
    """The refund of a response."""

    refunds: Annotated[list[RefundDocument], Meta(min_length=1, max_length=1)]


class RefundedOrder(Response, frozen=True):
    """The response to a refund request: the order's status and this refund alone."""

    id: OrderId
    status: Status
    status_detail: StatusDetail
    transactions: RefundTransactions


def refund_response(order: Order, refund: Refund) -> RefundedOrder:
    """Return the response to the refund's request."""
    return _response(order, refund.in_order)


def _response(order: Order, refund: OrderRefund) -> RefundedOrder:
    transactions = RefundTransactions([refund_document(order, refund)])
    return RefundedOrder(order.order_id, order.status, order.status_detail, transactions)


EXAMPLE = example(
    _response(
        msgspec.structs.replace(EXAMPLE_ORDER, status="processed", status_detail="partially_refunded"),
        OrderRefund("REF01J67D5XJVM2Z0S9C3HQ4T8W1N", "5.00", "processed", 1_769_871_731_480, "115019989861"),
    )
)
