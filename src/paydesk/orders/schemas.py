"""What an order looks like on the wire: the request to create one, and the object that every answer shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from paydesk import card_numbers
from paydesk.clock import rfc3339
from paydesk.durations import EXPIRATION_SECONDS_MAX, EXPIRATION_SECONDS_MIN, is_duration, seconds_of
from paydesk.ids import PAYMENT_ID_PATTERN
from paydesk.money import AMOUNT_PATTERN, CURRENCIES, Currency, decimal_string, minor_units
from paydesk.orders import wording
from paydesk.orders.status import FAILED_DETAILS

if TYPE_CHECKING:
    from paydesk.orders.refund_store import Refund
    from paydesk.orders.store import Order

# The context that the models are validated with: the seller's currency, and the smallest amount in minor units.
CURRENCY, AMOUNT_MINOR_MIN = "currency", "amount_minor_min"

EXTERNAL_REFERENCE_PATTERN = "^[A-Za-z0-9_-]{1,64}$"
_REFERENCE = re.compile(EXTERNAL_REFERENCE_PATTERN[1:-1])
_AMOUNT_RULE = 'must be a decimal string such as "24.90": 1 to 12 digits, and with a point at most 2 more'
_WHOLE_AMOUNT_RULE = 'must be a decimal string such as "2490": 1 to 12 digits, without decimals, as {} has none'


def _refuse(what: str) -> PydanticCustomError:
    return PydanticCustomError("property_value", what)


def _expiration(text: str) -> str:
    seconds = seconds_of(text)
    if seconds is None or not EXPIRATION_SECONDS_MIN <= seconds <= EXPIRATION_SECONDS_MAX:
        raise _refuse("must be an ISO 8601 duration of hours, minutes and seconds from PT30S to PT3H, such as PT15M")
    return text


def _duration(text: str) -> str:
    if not is_duration(text):
        raise _refuse("must be an ISO 8601 duration, such as PT30S")
    return text


def _minor(text: str, info: ValidationInfo) -> tuple[int, Currency]:
    """The amount in minor units of the seller's currency."""
    currency = CURRENCIES[(info.context or {}).get(CURRENCY, "BRL")]
    minor = minor_units(text, currency.decimals)
    if minor is None:
        raise _refuse(_AMOUNT_RULE if currency.decimals else _WHOLE_AMOUNT_RULE.format(currency.code))
    return minor, currency


def _amount(text: str, info: ValidationInfo) -> str:
    return _at_least((info.context or {}).get(AMOUNT_MINOR_MIN, 1), text, info)


def _part(text: str, info: ValidationInfo) -> str:
    # The smallest amount is one of payments: what goes back may be less.
    return _at_least(1, text, info)


def _at_least(least: int, text: str, info: ValidationInfo) -> str:
    minor, currency = _minor(text, info)
    if minor <= 0:
        raise _refuse("must be above zero")
    if minor < least:
        raise _refuse(f"must be at least {decimal_string(least, currency.decimals)}")
    return text


def _total_amount(text: str, info: ValidationInfo) -> str:
    minor, currency = _minor(text, info)
    transactions = info.data.get("transactions")
    if transactions is not None and minor != minor_units(transactions.payments[0].amount, currency.decimals):
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


def _external_reference(text: str) -> str:
    if not _REFERENCE.fullmatch(text):
        raise _refuse("must have 1 to 64 letters, digits, _ and -")
    return text


def _description(text: str) -> str:
    if card_numbers.carries(text):
        raise _refuse("must not contain a card number")
    return text


class Model(BaseModel):
    """Closed and strict: unknown fields are refused, nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _text(pattern: str, *examples: str) -> WithJsonSchema:
    """How the document tells of a text whose rule people are told in words."""
    return WithJsonSchema({"type": "string", "pattern": pattern, **({"examples": list(examples)} if examples else {})})


Short = Annotated[str, Field(max_length=64)]


class PaymentRequest(Model):
    """What is to be paid."""

    amount: Annotated[str, AfterValidator(_amount), _text(AMOUNT_PATTERN, "24.90")]


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
    external_reference: (
        Annotated[str, AfterValidator(_external_reference), _text(EXTERNAL_REFERENCE_PATTERN)] | None
    ) = None
    description: Annotated[str, Field(max_length=150), AfterValidator(_description)] | None = None
    expiration_time: Annotated[str, AfterValidator(_expiration), Field(examples=["PT16M"])] | None = None
    transactions: TransactionsRequest
    config: ConfigRequest
    integration_data: IntegrationDataRequest | None = None
    total_amount: Annotated[str, AfterValidator(_total_amount), _text(AMOUNT_PATTERN)] | None = None
    currency: Annotated[str, AfterValidator(_currency), _text("^[A-Z]{3}$")] | None = None
    processing_mode: Literal["automatic"] | None = None
    capture_mode: Literal["automatic", "automatic_async"] | None = None


class RefundPartRequest(Model):
    """The part that is to be given back, and of which payment."""

    id: Annotated[str, Field(pattern=PAYMENT_ID_PATTERN, examples=["PAY01J67CQQH5904WDBVZEM4JMEP3"])]
    amount: Annotated[str, AfterValidator(_part), _text(AMOUNT_PATTERN, "5.00")]


class RefundRequest(Model):
    """`POST /v1/orders/{order_id}/refund`: one part of the payment; without it, all that is left."""

    transactions: Annotated[list[RefundPartRequest], Field(min_length=1, max_length=1)] | None = None


SIMULATED_DETAILS: dict[str, tuple[str, ...]] = {
    "processed": ("accredited",),
    "failed": FAILED_DETAILS,
    "canceled": ("canceled_on_terminal", "canceled_by_api"),
    "refunded": ("refunded",),
    "expired": ("expired",),
    "action_required": ("check_on_terminal",),
}


def _only_of_payments(value: Any, info: ValidationInfo) -> Any:
    # Where the status is at fault itself it is missing from the data, and one fault is enough.
    if info.data.get("status", "processed") not in ("processed", "failed"):
        raise _refuse("is only for the statuses processed and failed")
    return value


def _simulated_installments(count: int, info: ValidationInfo) -> int:
    if info.data.get("payment_method_type") not in (None, "credit_card"):
        raise _refuse("is only for the payment_method_type credit_card")
    return count


def _simulated_detail(text: str, info: ValidationInfo) -> str:
    details = SIMULATED_DETAILS.get(info.data.get("status", ""))
    if details is not None and text not in details:
        raise _refuse(f"must be one of {', '.join(details)} with this status")
    return text


class SimulatedRequest(Model):
    """`POST /v1/orders/{order_id}/events`: the status that a test order is brought to, and how it was paid."""

    status: Literal["processed", "failed", "canceled", "refunded", "expired", "action_required"]
    payment_method_type: (
        Annotated[Literal["credit_card", "debit_card", "qr"], AfterValidator(_only_of_payments)] | None
    ) = None
    payment_method_id: (
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$", examples=["visa"]), AfterValidator(_only_of_payments)]
        | None
    ) = None
    installments: (
        Annotated[
            int,
            Field(ge=1, le=48),
            AfterValidator(_only_of_payments),
            AfterValidator(_simulated_installments),
        ]
        | None
    ) = None
    status_detail: Annotated[str, AfterValidator(_simulated_detail), Field(examples=["accredited"])] | None = None


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
        "status": wording.status_of(order),
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
    data["status"] = wording.status_of(order)
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
        "status": wording.status_of(order),
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
