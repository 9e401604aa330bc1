"""The fields of sellers: request bodies with what people see of them, closed to unknown properties."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from paydesk.core.model import Model, rule
from paydesk.core.money import CURRENCIES
from paydesk.operators.documents import Document, Reader
from paydesk.operators.schemas import Change, Email, Name, Password
from paydesk.operators.words import Shown

_CURRENCY_OF = {one.country: one.code for one in CURRENCIES.values()}
_CURRENCY = rule(f"must be one of {', '.join(CURRENCIES)}", CURRENCIES.__contains__)

Country = Annotated[
    str,
    Field(pattern="^[A-Z]{3}$", examples=["BRA"]),
    Shown(
        "Country",
        "By ISO 3166-1. Any other: paydesk sellers create",
        labels={country: country for country in sorted(_CURRENCY_OF)},
        help="ISO 3166-1 alpha-3.",
        default="BRA",
    ),
]
Currency = Annotated[
    str,
    _CURRENCY,
    Field(examples=["BRL"], json_schema_extra={"enum": list(CURRENCIES)}),
    Shown(
        "Currency",
        "Of all orders. Country and currency cannot be changed later.",
        labels={one.code: f"{one.code} ({one.country})" for one in CURRENCIES.values()},
        help="ISO 4217; the currency of the seller's orders.",
        default="BRL",
    ),
]


class SellerRequest(Model):
    """`POST /operator/v1/sellers`. Without a password one is generated and returned."""

    email: Email = Field(examples=["ana@shop.example"])
    name: Name = Field(examples=["Corner shop"])
    country: Country
    currency: Currency
    password: Password | None = Field(None, repr=False)


class SellerChange(Change):
    """`PATCH /operator/v1/sellers/{user_id}`. Country and currency cannot change, because orders depend on them."""

    email: Email | None = None
    name: Name | None = None


class PasswordRequest(Model):
    """`POST /operator/v1/sellers/{user_id}/password`. Without a password one is generated and returned."""

    password: Password | None = Field(None, repr=False)
    withdraw_all: Annotated[
        bool,
        Shown(
            "Withdraw all authorizations",
            "For a password that others may know: they may have authorized an application. The tokens of all"
            " applications for the seller are refused, and each must be authorized again. Otherwise applications keep"
            " their tokens.",
            help="Withdraw the seller's authorization of every application; their tokens are refused.",
        ),
    ] = Field(False, description="Withdraw every authorization of the seller as well.")


async def currency_of_country(_: Reader, body: Document, __: Document) -> str:
    """Return the detail of a currency that is another country's; empty if it is its own or the country is unknown."""
    currency = body["currency"]
    own = _CURRENCY_OF.get(body["country"], currency) if currency in CURRENCIES else currency
    return "" if currency == own else f"'currency' - of {body['country']} is {own}"
