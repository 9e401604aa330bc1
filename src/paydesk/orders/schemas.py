"""What an order looks like on the wire: the request to create one, and the object that every answer shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from paydesk import card_numbers
from paydesk.clock import rfc3339
from paydesk.durations import EXPIRATION_SECONDS_MAX, EXPIRATION_SECONDS_MIN, seconds_of
from paydesk.money import AMOUNT_PATTERN, CURRENCIES, decimal_string, minor_units

if TYPE_CHECKING:
    from paydesk.orders.store import Order

# The context that the models are validated with: the seller's currency, and the smallest amount in minor units.
CURRENCY, AMOUNT_MINOR_MIN = "currency", "amount_minor_min"


def _refuse(what: str) -> PydanticCustomError:
    return PydanticCustomError("property_value", what)


def _expiration(text: str) -> str:
    seconds = seconds_of(text)
    if seconds is None or not EXPIRATION_SECONDS_MIN <= seconds <= EXPIRATION_SECONDS_MAX:
        raise _refuse("must be an ISO 8601 duration from PT30S to PT3H, such as PT15M")
    return text


def _duration(text: str) -> str:
    if seconds_of(text) is None:
        raise _refuse("must be an ISO 8601 duration, such as PT30S")
    return text


def _amount(text: str, info: ValidationInfo) -> str:
    context = info.context or {}
    currency = CURRENCIES[context.get(CURRENCY, "BRL")]
    minor = minor_units(text, currency.decimals)
    if minor is None:
        raise _refuse(f"must have at most {currency.decimals} decimals, as {currency.code} has")
    least = context.get(AMOUNT_MINOR_MIN, 1)
    if minor <= 0:
        raise _refuse("must be above zero")
    if minor < least:
        raise _refuse(f"must be at least {decimal_string(least, currency.decimals)}")
    return text


def _total_amount(text: str, info: ValidationInfo) -> str:
    transactions = info.data.get("transactions")
    if transactions is not None and minor_units(text, 2) != minor_units(transactions.payments[0].amount, 2):
        raise _refuse("must be the amount of the payment")
    return text


def _currency(text: str, info: ValidationInfo) -> str:
    expected = (info.context or {}).get(CURRENCY)
    if expected is not None and text != expected:
        raise _refuse(f"must be {expected}, the seller's currency")
    return text


def _installments(count: int, info: ValidationInfo) -> int:
    # Where default_type is at fault itself it is missing from the data, and one fault is enough.
    if info.data.get("default_type", "credit_card") != "credit_card":
        raise _refuse("is only for the default_type credit_card")
    return count


def _description(text: str) -> str:
    if card_numbers.carries(text):
        raise _refuse("must not contain a card number")
    return text


class Model(BaseModel):
    """Closed and strict: unknown fields are refused, nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Short = Annotated[str, Field(max_length=64)]


class PaymentRequest(Model):
    """What is to be paid."""

    amount: Annotated[str, Field(pattern=AMOUNT_PATTERN, examples=["24.90"]), AfterValidator(_amount)]


class TransactionsRequest(Model):
    """Exactly one payment."""

    payments: Annotated[list[PaymentRequest], Field(min_length=1, max_length=1)]


class PointRequest(Model):
    """The terminal and what it does."""

    terminal_id: Annotated[str, Field(min_length=1, max_length=80, examples=["NEWLAND_N950__N950NCB801293324"])]
    print_on_terminal: Literal["seller_ticket", "no_ticket"] = "seller_ticket"
    ticket_number: Annotated[str, Field(max_length=20)] | None = None
    screen_time: Annotated[str, AfterValidator(_duration), Field(examples=["PT30S"])] | None = None


class PaymentMethodRequest(Model):
    """How the buyer is asked to pay."""

    default_type: Literal["credit_card", "debit_card", "qr"] | None = None
    default_installments: Annotated[int, Field(ge=1, le=48), AfterValidator(_installments)] | None = None
    installments_cost: Literal["seller", "buyer"] | None = None


class ConfigRequest(Model):
    """The terminal's and the payment method's part."""

    point: PointRequest
    payment_method: PaymentMethodRequest | None = None


class SponsorRequest(Model):
    """Whoever brought the seller in."""

    id: Short | None = None


class IntegrationDataRequest(Model):
    """Who built what calls; echoed."""

    platform_id: Short | None = None
    integrator_id: Short | None = None
    corporation_id: Short | None = None
    sponsor: SponsorRequest | None = None


class OrderRequest(Model):
    """`POST /v1/orders`."""

    type: Literal["point"]
    external_reference: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    description: Annotated[str, Field(max_length=150), AfterValidator(_description)] | None = None
    expiration_time: Annotated[str, AfterValidator(_expiration), Field(examples=["PT16M"])] | None = None
    transactions: TransactionsRequest
    config: ConfigRequest
    integration_data: IntegrationDataRequest | None = None
    total_amount: Annotated[str, Field(pattern=AMOUNT_PATTERN), AfterValidator(_total_amount)] | None = None
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$"), AfterValidator(_currency)] | None = None
    processing_mode: Literal["automatic"] | None = None
    capture_mode: Literal["automatic", "automatic_async"] | None = None


class CancelRequest(Model):
    """`POST /v1/orders/{order_id}/cancel` takes no body; an empty object is the same."""


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
        "status": order.status,
        "status_detail": order.status_detail,
        "live_mode": bool(order.live),
        "version": order.version,
        "created_date": rfc3339(order.created_ms),
        "last_updated_date": rfc3339(order.updated_ms),
        "integration_data": _raw(order.integration_data.encode()),
        "config": _raw(order.config.encode()),
        "transactions": {"payments": [_payment(order)]},
    }
    return document


def notified(order: Order) -> dict[str, Any]:
    """The order as a notification's `data` tells it."""
    data: dict[str, Any] = {"id": order.order_id, "type": "point"}
    if order.external_reference is not None:
        data["external_reference"] = order.external_reference
    data["status"] = order.status
    # Existing receivers look for `accredited` on a processed order.
    data["status_detail"] = "accredited" if order.status_detail == "processed" else order.status_detail
    data["version"] = order.version
    if order.paid_minor is not None:
        data["total_paid_amount"] = decimal_string(order.paid_minor, CURRENCIES[order.currency].decimals)
    payment = _payment(order)
    if order.reference_id is not None:
        payment["reference"] = {"id": order.reference_id}
    data["transactions"] = {"payments": [payment]}
    return data


def _payment(order: Order) -> dict[str, Any]:
    payment: dict[str, Any] = {
        "id": f"PAY{order.ulid}",
        "amount": order.amount,
        "status": order.status,
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
