"""Orders as JSON in responses and notifications. A field without a value is omitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from paydesk.core.clock import rfc3339
from paydesk.core.money import CURRENCIES, decimal_string

if TYPE_CHECKING:
    from paydesk.orders.order import Order
    from paydesk.orders.status_labels import Labels

_raw = msgspec.Raw


def order_document(order: Order, labels: Labels) -> dict[str, Any]:
    """Return the order as create, get, search and cancel respond with it."""
    document: dict[str, Any] = {
        "id": order.order_id,
        "type": "point",
        "processing_mode": "automatic",
        "user_id": str(order.seller_id),
    }
    if order.external_reference is not None:
        document["external_reference"] = order.external_reference
    if order.description is not None:
        document["description"] = order.description
    document |= {
        "expiration_time": order.expiration_time,
        "total_amount": order.amount,
        "country_code": order.country,
        "currency": order.currency,
        "status": labels.of(order),
        "status_detail": order.status_detail,
        "live_mode": bool(order.live),
        "version": order.version,
        "created_date": rfc3339(order.created_ms),
        "last_updated_date": rfc3339(order.updated_ms),
        "integration_data": _raw(order.integration_data.encode()),
        "config": _raw(order.config.encode()),
        "transactions": _transactions(order, _payment(order, labels)),
    }
    return document


def notification_data(order: Order, labels: Labels) -> dict[str, Any]:
    """Return the order as the `data` of a notification."""
    data: dict[str, Any] = {"id": order.order_id, "type": "point"}
    if order.external_reference is not None:
        data["external_reference"] = order.external_reference
    data["status"] = labels.of(order)
    # Existing receivers expect `accredited` for a processed order.
    data["status_detail"] = "accredited" if order.status_detail == "processed" else order.status_detail
    data["version"] = order.version
    if order.paid_minor is not None:
        data["total_paid_amount"] = decimal_string(order.paid_minor, CURRENCIES[order.currency].decimals)
    payment = _payment(order, labels)
    if order.reference_id is not None:
        payment["reference"] = {"id": order.reference_id}
    data["transactions"] = _transactions(order, payment)
    return data


def _transactions(order: Order, payment: dict[str, Any]) -> dict[str, Any]:
    if order.refunds is None:
        return {"payments": [payment]}
    return {"payments": [payment], "refunds": _raw(order.refunds.encode())}


def _payment(order: Order, labels: Labels) -> dict[str, Any]:
    payment: dict[str, Any] = {
        "id": order.payment_id,
        "amount": order.amount,
        "status": labels.of(order),
        "status_detail": order.payment_status_detail,
    }
    if order.paid_minor is not None:
        _add_outcome(payment, order)
    if order.origin is not None:
        payment["origin"] = order.origin
    return payment


def _add_outcome(payment: dict[str, Any], order: Order) -> None:
    decimals = CURRENCIES[order.currency].decimals
    assert order.paid_minor is not None, "only a paid order has an outcome"
    payment["paid_amount"] = decimal_string(order.paid_minor, decimals)
    if order.reference_id is not None:
        payment["reference_id"] = order.reference_id
    if order.payment_method is not None:
        payment["payment_method"] = _raw(order.payment_method.encode())
    if order.card is not None:
        payment["card"] = _raw(order.card.encode())
    if order.authorization_code is not None:
        payment["authorization_code"] = order.authorization_code
    if order.tip_minor:
        payment["tip_amount"] = decimal_string(order.tip_minor, decimals)
    if order.refunded_minor:
        payment["refunded_amount"] = decimal_string(order.refunded_minor, decimals)
