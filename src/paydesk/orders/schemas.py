"""What is asked of orders, at the wire: closed, strict, every fault with its place."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from paydesk.core import card_numbers, durations
from paydesk.core.durations import EXPIRATION_SECONDS_MAX, EXPIRATION_SECONDS_MIN, is_duration, seconds_of
from paydesk.core.ids import PAYMENT_ID_PATTERN
from paydesk.core.model import Model
from paydesk.core.money import AMOUNT_PATTERN, CURRENCIES, Currency, decimal_string, minor_units
from paydesk.orders.status import FAILED_DETAILS

# The context that the models are validated with: the seller's currency, and the smallest amount in minor units.
CURRENCY, AMOUNT_MINOR_MIN = "currency", "amount_minor_min"
# Also in the context: whether references are checked for card numbers. Descriptions always are.
REFERENCES_CHECKED = "references_checked"

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


def _reference(text: str, info: ValidationInfo) -> str:
    if info.context and info.context.get(REFERENCES_CHECKED) and card_numbers.carried_by_reference(text):
        raise _refuse("must not contain a card number")
    return text


def _text(pattern: str, *examples: str) -> WithJsonSchema:
    """How the document tells of a text whose rule people are told in words."""
    return WithJsonSchema({"type": "string", "pattern": pattern, **({"examples": list(examples)} if examples else {})})


_ANY_DURATION: dict[str, Any] = {
    "pattern": f"^{durations.ANY_PATTERN}$",
    "maxLength": durations.ANY_CHARACTERS_MAX,
}
Short = Annotated[str, Field(max_length=64), AfterValidator(_reference)]


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
    ticket_number: Annotated[str, Field(max_length=20), AfterValidator(_reference)] | None = None
    screen_time: (
        Annotated[str, AfterValidator(_duration), Field(examples=["PT30S"], json_schema_extra=_ANY_DURATION)] | None
    ) = None


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
        Annotated[
            str,
            AfterValidator(_external_reference),
            AfterValidator(_reference),
            _text(EXTERNAL_REFERENCE_PATTERN),
        ]
        | None
    ) = None
    description: Annotated[str, Field(max_length=150), AfterValidator(_description)] | None = None
    expiration_time: Annotated[str, AfterValidator(_expiration), _text(f"^{durations.PATTERN}$", "PT16M")] | None = None
    transactions: TransactionsRequest
    config: ConfigRequest
    integration_data: IntegrationDataRequest | None = None
    total_amount: Annotated[str, AfterValidator(_total_amount), _text(AMOUNT_PATTERN)] | None = None
    currency: Annotated[str, AfterValidator(_currency), Field(json_schema_extra={"enum": list(CURRENCIES)})] | None = (
        None
    )
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
_EVERY_SIMULATED_DETAIL = [detail for details in SIMULATED_DETAILS.values() for detail in details]


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
    status_detail: (
        Annotated[
            str,
            AfterValidator(_simulated_detail),
            Field(examples=["accredited"], json_schema_extra={"enum": _EVERY_SIMULATED_DETAIL}),
        ]
        | None
    ) = None


class CancelRequest(Model):
    """`POST /v1/orders/{order_id}/cancel` takes no body; an empty object is the same."""
