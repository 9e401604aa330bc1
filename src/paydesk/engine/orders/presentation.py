"""Orders as JSON in responses and notifications: each object's fields, and how they are made from the order."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from paydesk.core.clock import rfc3339
from paydesk.core.ids import ORDER_ID_PATTERN, PAYMENT_ID_PATTERN, REFUND_ID_PATTERN
from paydesk.core.money import CURRENCIES, decimal_string
from paydesk.core.response import Response, Time, encoded, one_of
from paydesk.engine.orders.order import Order, OrderRefund, RefundStatus, refunds_of
from paydesk.engine.orders.status import DETAILS, PAYMENT_DETAILS
from paydesk.engine.orders.status_labels import EXTENDED, PLAIN, Labels
from paydesk.engine.orders.stored_parts import CardDocument, IntegrationData, OrderConfig, PaymentMethodDocument, Tax
from paydesk.engine.webhooks.schemas import Notification

OrderId = Annotated[str, Meta(pattern=ORDER_ID_PATTERN)]
PaymentId = Annotated[str, Meta(pattern=PAYMENT_ID_PATTERN)]
Status = Annotated[
    str, one_of(EXTENDED.all, '`expired` and `action_required` only with the setting `order_statuses = "extended"`.')
]
StatusDetail = Annotated[str, one_of(DETAILS)]
NotifiedDetail = Annotated[str, one_of("accredited" if detail == "processed" else detail for detail in DETAILS)]
"""Existing receivers expect `accredited` for a processed order."""
DecimalCount = Annotated[str, Meta(pattern="^[0-9]+$")]
"""A number as a string, as existing clients expect it."""


class PaymentDocument(Response, frozen=True):
    """The payment of an order."""

    id: PaymentId
    amount: str
    status: Status
    status_detail: Annotated[str, one_of(PAYMENT_DETAILS)]
    paid_amount: str | None = None
    reference_id: str | None = None
    payment_method: Annotated[msgspec.Raw, encoded(PaymentMethodDocument)] | None = None
    card: Annotated[msgspec.Raw, encoded(CardDocument)] | None = None
    authorization_code: str | None = None
    tip_amount: str | None = None
    refunded_amount: str | None = None
    origin: Annotated[str, one_of(("customer", "terminal", "acquirer", "network", "service"))] | None = None


class Reference(Response, frozen=True):
    """The payment's reference at the acquirer."""

    id: str


class NotifiedPayment(PaymentDocument, frozen=True):
    """The payment in notifications."""

    reference: Reference | None = None


class RefundDocument(Response, frozen=True, kw_only=True):
    """A refund of an order."""

    id: Annotated[str, Meta(pattern=REFUND_ID_PATTERN)]
    transaction_id: PaymentId
    reference_id: str | None = None
    amount: str
    status: Annotated[RefundStatus, one_of(get_args(RefundStatus))]
    created_date: Time


class Transactions(Response, frozen=True):
    """The payment of an order, and its refunds."""

    payments: Annotated[list[PaymentDocument], Meta(min_length=1, max_length=1)]
    refunds: Annotated[list[RefundDocument], Meta(min_length=1)] | None = None


class NotifiedTransactions(Response, frozen=True):
    """The payment of an order in notifications, and its refunds. Only its schema is used."""

    payments: Annotated[list[NotifiedPayment], Meta(min_length=1, max_length=1)]
    refunds: Annotated[list[RefundDocument], Meta(min_length=1)] | None = None


class Payer(Response, frozen=True):
    """The buyer."""

    email: str


class OrderDocument(Response, frozen=True, kw_only=True):
    """An order as create, get, search and cancel respond with it."""

    id: OrderId
    type: Literal["point"]
    processing_mode: Literal["automatic"]
    user_id: str
    external_reference: str | None = None
    description: str | None = None
    expiration_time: str
    total_amount: str
    country_code: str
    currency: str
    status: Status
    status_detail: StatusDetail
    live_mode: bool
    version: Annotated[int, Meta(ge=1)]
    created_date: Time
    last_updated_date: Time
    integration_data: Annotated[
        msgspec.Raw, encoded(IntegrationData), Meta(description="As sent, with the application's id added.")
    ]
    config: Annotated[msgspec.Raw, encoded(OrderConfig), Meta(description="As sent, with defaults filled in.")]
    taxes: Annotated[msgspec.Raw, encoded(list[Tax]), Meta(description="As sent.")] | None = None
    payer: Annotated[Payer, Meta(description="As sent. It is deleted 120 days after the order was created.")] | None = (
        None
    )
    transactions: Transactions


class OrderPaging(Response, frozen=True):
    """The place of a page of orders."""

    total: DecimalCount
    total_pages: DecimalCount
    offset: DecimalCount
    limit: DecimalCount


class OrderPage(Response, frozen=True):
    """A page of orders that match a search."""

    data: list[OrderDocument]
    paging: OrderPaging


class NotifiedOrder(Response, frozen=True, kw_only=True):
    """An order as the `data` of a notification."""

    id: OrderId
    type: Literal["point"]
    external_reference: str | None = None
    status: Status
    status_detail: NotifiedDetail
    version: Annotated[int, Meta(ge=1)]
    total_paid_amount: str | None = None
    transactions: Annotated[Transactions, encoded(NotifiedTransactions)]


class Event(Notification, frozen=True):
    """A notification about an order, as webhooks and the event feed have it."""

    id: Annotated[str, Meta(extra_json_schema={"format": "uuid"})]
    type: Literal["order"]
    user_id: Annotated[str, Meta(description="The seller.")]
    data: NotifiedOrder


def order_document(order: Order, labels: Labels) -> OrderDocument:
    """Return the order as responses have it."""
    status = labels.of(order)
    return OrderDocument(
        id=order.order_id,
        type="point",
        processing_mode="automatic",
        user_id=str(order.seller_id),
        external_reference=order.external_reference,
        description=order.description,
        expiration_time=order.expiration_time,
        total_amount=order.amount,
        country_code=order.country,
        currency=order.currency,
        status=status,
        status_detail=order.status_detail,
        live_mode=bool(order.live),
        version=order.version,
        created_date=rfc3339(order.created_ms),
        last_updated_date=rfc3339(order.updated_ms),
        integration_data=msgspec.Raw(order.integration_data.encode()),
        config=msgspec.Raw(order.config.encode()),
        taxes=_raw(order.taxes),
        payer=Payer(order.payer_email) if order.payer_email is not None else None,
        transactions=_transactions(order, _payment(order, status)),
    )


def notified_order(order: Order, labels: Labels) -> NotifiedOrder:
    """Return the order as notifications have it."""
    status = labels.of(order)
    payment = _payment(order, status)
    if order.reference_id is not None:
        payment = NotifiedPayment(**msgspec.structs.asdict(payment), reference=Reference(order.reference_id))
    return NotifiedOrder(
        id=order.order_id,
        type="point",
        external_reference=order.external_reference,
        status=status,
        status_detail="accredited" if order.status_detail == "processed" else order.status_detail,
        version=order.version,
        total_paid_amount=_decimal(order, order.paid_minor),
        transactions=_transactions(order, payment),
    )


def refund_document(order: Order, refund: OrderRefund) -> RefundDocument:
    """Return a refund of the order as responses and notifications have it."""
    return RefundDocument(
        id=refund.id,
        transaction_id=order.payment_id,
        reference_id=refund.reference_id,
        amount=refund.amount,
        status=refund.status,
        created_date=rfc3339(refund.created_ms),
    )


def _transactions(order: Order, payment: PaymentDocument) -> Transactions:
    if order.refunds is None:
        return Transactions([payment])
    return Transactions([payment], [refund_document(order, refund) for refund in refunds_of(order.refunds)])


def _payment(order: Order, status: str) -> PaymentDocument:
    if order.paid_minor is None:
        return PaymentDocument(order.payment_id, order.amount, status, order.payment_status_detail, origin=order.origin)
    return PaymentDocument(
        id=order.payment_id,
        amount=order.amount,
        status=status,
        status_detail=order.payment_status_detail,
        paid_amount=_decimal(order, order.paid_minor),
        reference_id=order.reference_id,
        payment_method=_raw(order.payment_method),
        card=_raw(order.card),
        authorization_code=order.authorization_code,
        tip_amount=_decimal(order, order.tip_minor or None),
        refunded_amount=_decimal(order, order.refunded_minor or None),
        origin=order.origin,
    )


def _decimal(order: Order, minor: int | None) -> str | None:
    return decimal_string(minor, CURRENCIES[order.currency].decimals) if minor is not None else None


def _raw(text: str | None) -> msgspec.Raw | None:
    return msgspec.Raw(text.encode()) if text is not None else None


EXAMPLE_ORDER = Order(
    seller_id=1160535239,
    order_id="ORD01J67CQQH5904WDBVZEM4JMEP3",
    application_id=3676047501096810,
    live=1,
    terminal_id="NEWLAND_N950__N950NCB801293324",
    status="created",
    status_detail="created",
    payment_status_detail="created",
    version=1,
    currency="BRL",
    country="BRA",
    amount="24.90",
    amount_minor=2490,
    external_reference="ext_ref_1234",
    description="Smartphone",
    expiration_time="PT16M",
    config='{"point":{"terminal_id":"NEWLAND_N950__N950NCB801293324","print_on_terminal":"no_ticket"},'
    '"payment_method":{"default_type":"credit_card"}}',
    integration_data='{"application_id":"3676047501096810","platform_id":"dev_1"}',
    created_ms=1_769_869_602_109,
    updated_ms=1_769_869_602_109,
    expires_ms=1_769_870_562_109,
    payer_email=None,
    taxes=None,
    acquirer=None,
)


def example(document: Response) -> Any:
    """Return the response as an example for the docs: in plain objects and lists."""
    return msgspec.json.decode(msgspec.json.encode(document))


def example_order(**columns: Any) -> Any:
    """Return the example order with these columns, as responses have it."""
    return example(order_document(msgspec.structs.replace(EXAMPLE_ORDER, **columns), PLAIN))
