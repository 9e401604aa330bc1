"""Checks of arguments and options before anything is sent: each returns the value, or raises `WrongUsage` in words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperOption

from paydesk.commands.failure import WrongUsage
from paydesk.core.durations import EXPIRATION_SECONDS_MAX, EXPIRATION_SECONDS_MIN, seconds_of, typed_seconds
from paydesk.core.money import minor_units

EXAMPLE_ORDER_ID = "ORD01J67CQQH5904WDBVZEM4JMEP3"
CHARACTERS_SHOWN_MAX = 40
DECIMALS_MAX = 2
_NEGATIVE = re.compile(r"-[0-9.,].*")
_DECIMAL_COMMA = re.compile(r"[0-9]+,[0-9]{1,2}")
_GROUPED = re.compile(r"([0-9]{1,3}(?:([.,])[0-9]{3})+)(?!\2)[.,]([0-9]{1,2})")
"""A number with a separator of thousands and another one of decimals: `1.234,50`."""
_ADVICE = (
    (re.compile(r"-.*|0+([.,]0*)?"), "It must be above zero, such as 24.90."),
    (
        re.compile(r"[0-9]{13,}(\.[0-9]*)?"),
        "It has more than 12 digits before the decimal point. Use one such as 24.90.",
    ),
    (re.compile(r"[0-9]+\.[0-9]{3,}"), f"It has more than {DECIMALS_MAX} decimals. Use one such as 24.90."),
    (re.compile(".*", re.DOTALL), "Use digits and a decimal point, such as 24.90."),
)
"""The first pattern that matches a text without a likely amount has the advice."""


def amount(text: str | None) -> str | None:
    """Return the amount if it is one in any currency; the service judges its decimals in the seller's.

    A decimal comma becomes a point, as in the console.
    """
    if text is not None and _DECIMAL_COMMA.fullmatch(text):
        text = text.replace(",", ".")
    if text is None or minor_units(text, DECIMALS_MAX):
        return text
    if not text.strip():
        raise WrongUsage("The amount is empty. Use one such as 24.90.")
    raise WrongUsage(f"{_shown(text)} is not an amount. {_advice(text)}")


def order_id(text: str | None) -> str | None:
    """Return the order's id in upper case."""
    from paydesk.core import ids

    if text is None or (text.isascii() and ids.ORDER_ID.fullmatch(text.upper())):
        return text and text.upper()
    raise WrongUsage(
        f"{_shown(text) or 'An empty text'} is not the id of an order: ORD and 26 letters and digits, such as"
        f" {EXAMPLE_ORDER_ID}.",
        "`paydesk orders list` shows the ids.",
    )


def idempotency_key(text: str | None) -> str:
    """Return the idempotency key, a new UUID if there is none."""
    from paydesk.core import idempotency, ids
    from paydesk.core.errors import Refusal

    if text is None:
        return ids.uuid()
    try:
        return idempotency.check(text)
    except Refusal:
        raise WrongUsage(
            f"{_shown(text) or 'An empty text'} is not a key. Use 1 to 64 visible ASCII characters without spaces."
        ) from None


def expiration(text: str | None) -> str | None:
    """Return the order's expiration as an ISO 8601 duration: `10m` is `PT10M`."""
    if text is None:
        return None
    seconds = typed_seconds(text)
    if seconds is None or not EXPIRATION_SECONDS_MIN <= seconds <= EXPIRATION_SECONDS_MAX:
        raise WrongUsage(
            f"{_shown(text) or 'An empty text'} is not a duration from {EXPIRATION_SECONDS_MIN} s to"
            f" {EXPIRATION_SECONDS_MAX // 3600} h. Use one such as 10m, 90s or PT10M."
        )
    return text if seconds_of(text) is not None else f"PT{text.upper()}"


def script(text: str | None) -> str | None:
    """Return the script of a virtual terminal, which may be a list of scripts."""
    from paydesk.sandbox.terminals import playlists

    try:
        if text is not None:
            playlists.parse(text)
    except ValueError as error:
        raise WrongUsage(f"This is not a script of a virtual terminal: {error}.") from None
    return text


def payment_method(text: str | None) -> str | None:
    """Return the type of the payment method."""
    from paydesk.orders.schemas import PaymentType

    return None if text is None else one_of(text, get_args(PaymentType), "a payment method")


def one_of(text: str, allowed: Iterable[str], noun: str) -> str:
    """Return the text if it is one of those allowed; `noun` says what it is, such as `a status to simulate`."""
    names = tuple(allowed)
    if text not in names:
        raise WrongUsage(f"{_shown(text) or 'An empty text'} is not {noun}. Use one of {', '.join(names)}.")
    return text


class TakesAmount(TyperCommand):
    """A command that takes a negative number for a wrong amount, not for an unknown option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Raises `WrongUsage` for a negative number that is not an option's value."""
        valued = {
            name
            for option in self.params
            if isinstance(option, TyperOption) and not option.is_flag
            for name in option.opts
        }
        before = ""
        for text in args:
            if text == "--":
                break
            if _NEGATIVE.fullmatch(text) and before not in valued:
                amount(text)
            before = text
        return super().parse_args(ctx, args)


def _shown(text: str) -> str:
    return text if len(text) <= CHARACTERS_SHOWN_MAX else f"{text[:CHARACTERS_SHOWN_MAX]}…"


def _advice(text: str) -> str:
    """Return what to write instead of a text that is no amount."""
    plain = unicodedata.normalize("NFKC", text.strip())
    grouped = _GROUPED.fullmatch(plain)
    if grouped:
        digits = grouped[1].replace(grouped[2], "")
        return f"Use a decimal point, and no separators of thousands: {digits}.{grouped[3]}."
    if minor_units(plain, DECIMALS_MAX):
        return f"Use plain digits: {plain}."
    if "." not in plain and minor_units(plain.replace(",", "."), DECIMALS_MAX):
        return f"Use a decimal point: {plain.replace(',', '.')}."
    return next(advice for pattern, advice in _ADVICE if pattern.fullmatch(plain))


Amount = Annotated[str, typer.Argument(help="The amount, such as 24.90.", callback=amount)]
OrderId = Annotated[str, typer.Argument(help="The order's id.", callback=order_id, show_default=False)]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="The idempotency key: a request that is repeated with it has no second effect. [default: a new UUID]",
        show_default=False,
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="The payment method: credit_card, debit_card or qr.",
        callback=payment_method,
        show_default=False,
    ),
]
Installments = Annotated[
    int | None, typer.Option(help="The number of installments, with credit_card.", show_default=False)
]
Live = Annotated[bool, typer.Option("--live", help="Act with the live token. [default: with the test token]")]
