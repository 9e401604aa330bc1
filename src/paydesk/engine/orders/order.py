"""An order's row: its columns, the row of a new order, and the refunds in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from pydantic_core import to_json

from paydesk.core import ids
from paydesk.core.money import CURRENCIES, minor_units
from paydesk.core.text.durations import seconds_of
from paydesk.engine.orders import status
from paydesk.engine.orders.routing import Routing
from paydesk.engine.orders.status import State

if TYPE_CHECKING:
    from paydesk.engine.orders.schemas import OrderRequest
    from paydesk.platform.operation import Caller

RefundStatus = Literal["processing", "processed", "failed"]


class Order(msgspec.Struct, frozen=True, gc=False):
    """One row of `orders`, the order with its one payment, with its columns in order.

    A msgspec struct, not tracked by the garbage collector, because one is created for every request; a frozen
    dataclass of this size takes ten times as long.
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
    payer_email: str | None
    taxes: str | None
    acquirer: str | None
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
    def order_facts(self) -> dict[str, Any]:
        """The order in the log, with its seller and its terminal."""
        return {"order": self.order_id, "seller_id": self.seller_id, "terminal_id": self.terminal_id}

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


def new_order(request: OrderRequest, caller: Caller, now_ms: int, expiration_default: str, routing: Routing) -> Order:
    """Return the row of the order that a request creates; it expires after `expiration_default` if it doesn't say.

    The `routing` chooses the acquirer of a live order, which it keeps.
    """
    payment = request.transactions.payments[0]
    amount_minor = minor_units(payment.amount, CURRENCIES[caller.currency].decimals)
    expiration_time = request.expiration_time or expiration_default
    seconds = seconds_of(expiration_time)
    assert amount_minor is not None, "the amount was validated"
    assert seconds is not None, "the duration was validated"
    config, payer, acquirer = request.config, request.payer, None
    if caller.live:
        acquirer = routing.acquirer_for(caller.seller_id, caller.currency, config.point.terminal_id)
    if payment.payment_method is not None:
        config = config.completed(payment.payment_method)
    sent = request.integration_data.model_dump(exclude_none=True) if request.integration_data is not None else {}
    integration_data, taxes = {"application_id": str(caller.application_id), **sent}, request.taxes
    return Order(
        seller_id=caller.seller_id,
        order_id=f"ORD{ids.ulid(now_ms)}",
        application_id=caller.application_id,
        live=int(caller.live),
        terminal_id=config.point.terminal_id,
        status=status.CREATED.status,
        status_detail=status.CREATED.detail,
        payment_status_detail=status.CREATED.payment_detail,
        version=1,
        currency=caller.currency,
        country=caller.country,
        amount=payment.amount,
        amount_minor=amount_minor,
        external_reference=request.external_reference,
        description=request.description,
        expiration_time=expiration_time,
        config=to_json(config, exclude_none=True).decode(),
        integration_data=msgspec.json.encode(integration_data).decode(),
        created_ms=now_ms,
        updated_ms=now_ms,
        expires_ms=now_ms + seconds * 1000,
        payer_email=payer.email if payer is not None else None,
        taxes=msgspec.json.encode([tax.model_dump() for tax in taxes]).decode() if taxes is not None else None,
        acquirer=acquirer,
    )


class OrderRefund(msgspec.Struct, frozen=True, omit_defaults=True):
    """A refund as the order's column `refunds` has it, in a JSON array."""

    id: str
    amount: str
    status: RefundStatus
    created_ms: int
    reference_id: str | None = None


_decode_refunds = msgspec.json.Decoder(list[OrderRefund]).decode


def refunds_of(column: str | None) -> list[OrderRefund]:
    """Return the refunds in the column `refunds`, oldest first."""
    return _decode_refunds(column) if column is not None else []
