"""Requests about orders: strict, closed to unknown fields, with every fault located by its path."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, GetPydanticSchema, ValidationInfo, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from paydesk.core.model import IDENTIFIER, NO_CARD_NUMBER, Model, choice_rule, property_fault, rule, rule_beside
from paydesk.core.money import CURRENCIES, POSITIVE_AMOUNT_PATTERN, Currency, decimal_string, minor_units
from paydesk.core.text import durations
from paydesk.core.text.durations import EXPIRATION_SECONDS_MAX, EXPIRATION_SECONDS_MIN, is_duration, seconds_of

# Keys of the validation context: the seller's currency, and the smallest amount in minor units.
CURRENCY, AMOUNT_MINOR_MIN = "currency", "amount_minor_min"

EMAIL_CHARACTERS_MAX = 254
INSTALLMENTS_MIN, INSTALLMENTS_MAX = 1, 48
EXTERNAL_REFERENCE_PATTERN = "^[A-Za-z0-9_-]{1,64}$"
_DIGITS = re.compile("[0-9]{1,2}")
_AMOUNT_RULE = 'must be a decimal string such as "24.90": 1 to 12 digits, and with a point at most 2 more'
_WHOLE_AMOUNT_RULE = 'must be a decimal string such as "2490": 1 to 12 digits, without decimals, as {} has none'


def _screen_time(text: str) -> str | None:
    """Return the duration; None for an empty text, which existing clients send for the default."""
    if not text:
        return None
    if not is_duration(text):
        raise property_fault("must be an ISO 8601 duration, such as PT30S")
    return text


def _minor(text: str, info: ValidationInfo) -> tuple[int, Currency]:
    """Return the amount in minor units of the seller's currency, and the currency."""
    # An operator has no currency; the operation checks the decimals.
    currency = CURRENCIES[(info.context or {}).get(CURRENCY) or "BRL"]
    minor = minor_units(text, currency.decimals)
    if minor is None:
        raise property_fault(_AMOUNT_RULE if currency.decimals else _WHOLE_AMOUNT_RULE.format(currency.code))
    return minor, currency


def _amount(text: str, info: ValidationInfo) -> str:
    return _at_least((info.context or {}).get(AMOUNT_MINOR_MIN, 1), text, info)


def positive_amount(text: str, info: ValidationInfo) -> str:
    """Return the amount if it is valid and above zero. The configured minimum applies to payments alone."""
    return _at_least(1, text, info)


def _at_least(least: int, text: str, info: ValidationInfo) -> str:
    minor, currency = _minor(text, info)
    if minor <= 0:
        raise property_fault("must be above zero")
    if minor < least:
        raise property_fault(f"must be at least {decimal_string(least, currency.decimals)}")
    return text


def _total_amount(text: str, info: ValidationInfo) -> str:
    minor, currency = _minor(text, info)
    transactions = info.data.get("transactions")
    if transactions is not None and minor != minor_units(transactions.payments[0].amount, currency.decimals):
        raise property_fault("must be the amount of the payment")
    return text


def _currency(text: str, info: ValidationInfo) -> str:
    expected = (info.context or {}).get(CURRENCY)
    if expected is not None and text != expected:
        raise property_fault(f"must be {expected}, the seller's currency")
    return text


def _as_sent(sent: Any, check_count: Callable[[Any], Any]) -> Any:
    """Return the number of installments as it was sent: an integer, or a string of its digits."""
    if not isinstance(sent, str):
        return check_count(sent)
    if not _DIGITS.fullmatch(sent):
        raise property_fault("must be an integer, or a string of its digits")
    check_count(int(sent))
    return sent


def _installments_schema(_source: Any, _handler: Any) -> CoreSchema:
    count = core_schema.int_schema(ge=INSTALLMENTS_MIN, le=INSTALLMENTS_MAX, strict=True)
    return core_schema.no_info_wrap_validator_function(
        _as_sent, count, serialization=core_schema.simple_ser_schema("any")
    )


def text_schema(pattern: str, *examples: str, description: str = "") -> WithJsonSchema:
    """Return the JSON schema of a text that a validator checks: its pattern appears in OpenAPI, not in faults."""
    further = {"description": description, "examples": list(examples)}
    return WithJsonSchema({"type": "string", "pattern": pattern, **{key: one for key, one in further.items() if one}})


_ANY_DURATION: dict[str, Any] = {
    "pattern": f"^({durations.ANY_PATTERN})?$",
    "maxLength": durations.ANY_CHARACTERS_MAX,
    "description": "Empty: the terminal's default, as without the field.",
}
ScreenTime = Annotated[str, AfterValidator(_screen_time), Field(examples=["PT30S"], json_schema_extra=_ANY_DURATION)]
ExpirationTime = Annotated[
    str,
    rule(
        "must be an ISO 8601 duration in hours, minutes and seconds, from PT30S to PT3H, such as PT15M",
        lambda text: EXPIRATION_SECONDS_MIN <= (seconds_of(text) or 0) <= EXPIRATION_SECONDS_MAX,
    ),
    text_schema(
        f"^{durations.PATTERN}$",
        "PT16M",
        description="How long the order waits for its payment, from PT30S to PT3H; PT15M by default.",
    ),
]
SellersCurrency = Annotated[
    str,
    AfterValidator(_currency),
    Field(description="If sent, the seller's.", json_schema_extra={"enum": list(CURRENCIES)}),
]
ExternalReference = Annotated[
    str,
    rule("must have 1 to 64 letters, digits, _ and -", re.compile(EXTERNAL_REFERENCE_PATTERN[1:-1]).fullmatch),
    IDENTIFIER,
    text_schema(EXTERNAL_REFERENCE_PATTERN, description="Your id of the sale or print, by which it is found."),
]
Short = Annotated[str, Field(max_length=64), IDENTIFIER]
Installments = Annotated[
    int | str,
    GetPydanticSchema(_installments_schema),
    WithJsonSchema(
        {
            "oneOf": [
                {"type": "integer", "minimum": INSTALLMENTS_MIN, "maximum": INSTALLMENTS_MAX},
                {"type": "string", "pattern": "^(0?[1-9]|[1-3][0-9]|4[0-8])$"},
            ],
            "description": f"From {INSTALLMENTS_MIN} to {INSTALLMENTS_MAX}, also as a string of digits.",
        }
    ),
]
PaymentType = Literal["credit_card", "debit_card", "qr"]
PrintOnTerminal = Literal["seller_ticket", "no_ticket"]
InstallmentsCost = Literal["seller", "buyer"]
PayerCondition = Literal["payment_taxable_iva", "payment_exempt_iva"]
Email = Annotated[
    str,
    Field(
        max_length=EMAIL_CHARACTERS_MAX,
        examples=["buyer@shop.example"],
        json_schema_extra={"pattern": "^[^@]+@[^@]+$"},
    ),
    rule("must be an e-mail address, with one @", re.compile("[^@]+@[^@]+").fullmatch),
    IDENTIFIER,
]
NO_EFFECT = "Without effect: existing clients send it."
OrderType = Annotated[Literal["point"], choice_rule("must be 'point': orders here are for terminals")]


class PaymentMethodOfPayment(Model):
    """How the buyer is asked to pay, where existing clients say it. `config.payment_method` takes precedence."""

    id: Annotated[str, Field(max_length=64, description="Ignored.")] | None = None
    type: Annotated[PaymentType, Field(description="Used if `default_type` is absent.")] | None = None
    installments: (
        Annotated[
            Installments,
            rule_beside(
                "must be 1, as the type is not credit_card",
                # Existing clients send 1 with every type.
                lambda count, fields: int(count) <= 1 or fields.get("type") in ("credit_card", None),
            ),
            Field(description="Used for `credit_card`, if `default_installments` is absent."),
        ]
        | None
    ) = None


class PaymentRequest(Model):
    """The amount due."""

    amount: Annotated[str, AfterValidator(_amount), text_schema(POSITIVE_AMOUNT_PATTERN, "24.90")]
    payment_method: PaymentMethodOfPayment | None = None


class TransactionsRequest(Model):
    """Exactly one payment."""

    payments: Annotated[list[PaymentRequest], Field(min_length=1, max_length=1, description="Exactly one.")]


class PointRequest(Model):
    """The terminal and its options."""

    terminal_id: Annotated[str, Field(min_length=1, max_length=80, examples=["NEWLAND_N950__N950NCB801293324"])]
    print_on_terminal: PrintOnTerminal = "seller_ticket"
    ticket_number: Annotated[str, Field(max_length=20, description="Printed on the receipt."), IDENTIFIER] | None = None
    screen_time: ScreenTime | None = None


class PaymentMethodRequest(Model):
    """How the buyer is asked to pay."""

    default_type: PaymentType | None = None
    default_installments: (
        Annotated[
            Installments,
            rule_beside(
                "is only for the default_type credit_card",
                # An invalid default_type is missing from the fields and has its own fault.
                lambda _, fields: fields.get("default_type", "credit_card") == "credit_card",
            ),
        ]
        | None
    ) = None
    installments_cost: InstallmentsCost | None = None


class ConfigRequest(Model):
    """Options of the terminal and the payment method."""

    point: PointRequest
    payment_method: PaymentMethodRequest | None = None

    def completed(self, sent: PaymentMethodOfPayment) -> ConfigRequest:
        """Return the options with what the payment says about its payment method and they do not."""
        own = self.payment_method or PaymentMethodRequest()
        chosen, installments = own.default_type or sent.type, own.default_installments
        if installments is None and chosen == "credit_card":
            installments = sent.installments
        if chosen is None:
            return self
        method = own.model_copy(update={"default_type": chosen, "default_installments": installments})
        return self.model_copy(update={"payment_method": method})


class PayerRequest(Model):
    """The buyer."""

    email: Email | None = None


class SponsorRequest(Model):
    """The partner that referred the seller."""

    id: Short | None = None


class IntegrationDataRequest(Model):
    """The integration that makes the request; returned unchanged."""

    platform_id: Short | None = None
    integrator_id: Short | None = None
    corporation_id: Short | None = None
    sponsor: SponsorRequest | None = None


class TaxRequest(Model):
    """The tax condition of the sale, in Chile."""

    payer_condition: PayerCondition


class OrderRequest(Model):
    """`POST /v1/orders`."""

    type: OrderType
    external_reference: ExternalReference | None = None
    description: (
        Annotated[str, Field(max_length=150, description="What is sold, for the terminal."), NO_CARD_NUMBER] | None
    ) = None
    expiration_time: ExpirationTime | None = None
    transactions: TransactionsRequest
    config: ConfigRequest
    taxes: Annotated[list[TaxRequest], Field(min_length=1, max_length=1)] | None = None
    integration_data: IntegrationDataRequest | None = None
    total_amount: (
        Annotated[
            str,
            AfterValidator(_total_amount),
            text_schema(POSITIVE_AMOUNT_PATTERN, description="If sent, the amount of the payment."),
        ]
        | None
    ) = None
    currency: SellersCurrency | None = None
    payer: PayerRequest | None = None
    processing_mode: Annotated[Literal["automatic"], Field(description=NO_EFFECT)] | None = None
    capture_mode: Annotated[Literal["automatic", "automatic_async"], Field(description=NO_EFFECT)] | None = None


class CancelRequest(Model):
    """To cancel an order or a print action takes no body; an empty object is the same."""
