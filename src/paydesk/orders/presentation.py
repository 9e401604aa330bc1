"""What an order and its refunds look like in answers and notifications. A field without a value is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from paydesk.core.clock import rfc3339
from paydesk.core.money import CURRENCIES, decimal_string
from paydesk.orders import status_labels

if TYPE_CHECKING:
    from paydesk.orders.order import Order
    from paydesk.payments.refund import Refund

_raw = msgspec.Raw


def shown(order: Order) -> dict[str, Any]:
    """The order as create, get and cancel answer it; a field without a value is left out."""
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
        "status": status_labels.status_of(order),
        "status_detail": order.status_detail,
        "live_mode": bool(order.live),
        "version": order.version,
        "created_date": rfc3339(order.created_ms),
        "last_updated_date": rfc3339(order.updated_ms),
        "integration_data": _raw(order.integration_data.encode()),
        "config": _raw(order.config.encode()),
        "transactions": _transactions(order, _payment(order)),
    }
    return document


def notified(order: Order) -> dict[str, Any]:
    """The order as a notification's `data` tells it."""
    data: dict[str, Any] = {"id": order.order_id, "type": "point"}
    if order.external_reference is not None:
        data["external_reference"] = order.external_reference
    data["status"] = status_labels.status_of(order)
    # Existing receivers look for `accredited` on a processed order.
    data["status_detail"] = "accredited" if order.status_detail == "processed" else order.status_detail
    data["version"] = order.version
    if order.paid_minor is not None:
        data["total_paid_amount"] = decimal_string(order.paid_minor, CURRENCIES[order.currency].decimals)
    payment = _payment(order)
    if order.reference_id is not None:
        payment["reference"] = {"id": order.reference_id}
    data["transactions"] = _transactions(order, payment)
    return data


def refund_answered(order: Order, refund: Refund) -> dict[str, Any]:
    """What a refund is answered: where the order stands, and this refund alone."""
    return {
        "id": order.order_id,
        "status": order.status,
        "status_detail": order.status_detail,
        "transactions": {"refunds": [refund_shown(refund)]},
    }


def refund_shown(refund: Refund) -> dict[str, Any]:
    """A refund as every answer shows it."""
    shown_refund: dict[str, Any] = {"id": refund.refund_id, "transaction_id": refund.payment_id}
    if refund.reference_id is not None:
        shown_refund["reference_id"] = refund.reference_id
    return {
        **shown_refund,
        "amount": refund.amount,
        "status": refund.status,
        "created_date": rfc3339(refund.created_ms),
    }


def with_refund(refunds: str | None, refund: Refund) -> str:
    """The refunds of an order as they are shown, with this one as it is now."""
    others = msgspec.json.decode(refunds) if refunds is not None else []
    place = next((place for place, other in enumerate(others) if other["id"] == refund.refund_id), len(others))
    return msgspec.json.encode([*others[:place], refund_shown(refund), *others[place + 1 :]]).decode()


def without_refund(refunds: str | None, refund: Refund) -> str | None:
    """The refunds of an order as they are shown, without this one."""
    others = [other for other in msgspec.json.decode(refunds or "[]") if other["id"] != refund.refund_id]
    return msgspec.json.encode(others).decode() if others else None


def _transactions(order: Order, payment: dict[str, Any]) -> dict[str, Any]:
    if order.refunds is None:
        return {"payments": [payment]}
    return {"payments": [payment], "refunds": _raw(order.refunds.encode())}


def _payment(order: Order) -> dict[str, Any]:
    payment: dict[str, Any] = {
        "id": order.payment_id,
        "amount": order.amount,
        "status": status_labels.status_of(order),
        "status_detail": order.payment_status_detail,
    }
    if order.paid_minor is not None:
        _add_outcome(payment, order)
    if order.origin is not None:
        payment["origin"] = order.origin
    return payment


def _add_outcome(payment: dict[str, Any], order: Order) -> None:
    decimals = CURRENCIES[order.currency].decimals
    assert order.paid_minor is not None, "only a paid order has an outcome to show"
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
