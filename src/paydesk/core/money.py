"""Money: decimal strings on the wire, integers of minor units inside, never floats."""

from __future__ import annotations

from dataclasses import dataclass

AMOUNT_PATTERN = r"^[0-9]{1,12}(\.[0-9]{1,2})?$"
POSITIVE_AMOUNT_PATTERN = rf"^(?=.*[1-9]){AMOUNT_PATTERN[1:]}"
"""The same, above zero."""


@dataclass(frozen=True, slots=True)
class Currency:
    """A currency with its number of decimals and the country (ISO 3166 alpha-3) whose sellers use it."""

    code: str
    decimals: int
    country: str


CURRENCIES = {
    currency.code: currency
    for currency in (
        Currency("BRL", 2, "BRA"),
        Currency("ARS", 2, "ARG"),
        Currency("MXN", 2, "MEX"),
        Currency("CLP", 0, "CHL"),
        Currency("UYU", 2, "URY"),
        Currency("COP", 2, "COL"),
        Currency("PEN", 2, "PER"),
    )
}


def minor_units(amount: str, decimals: int) -> int | None:
    """Convert `"24.9"` to 2490 with two decimals; None for an invalid amount or too many decimals."""
    whole, point, fraction = amount.partition(".")
    if not whole or len(whole) > 12 or len(fraction) > decimals or (point and not fraction):
        return None
    digits = whole + fraction
    return int(digits + "0" * (decimals - len(fraction))) if digits.isascii() and digits.isdigit() else None


def spelled(amount: str, currency: str) -> str:
    """Return an amount as people are shown it, with all decimals of its currency: `"5"` is `"5.00"` in BRL.

    The interface repeats amounts as they were sent. What is not an amount of a known currency stays unchanged.
    """
    known = CURRENCIES.get(currency)
    minor = None if known is None else minor_units(amount, known.decimals)
    return amount if known is None or minor is None else decimal_string(minor, known.decimals)


def decimal_string(minor: int, decimals: int) -> str:
    """Convert 2490 to `"24.90"` with two decimals, to `"2490"` with none."""
    if decimals == 0:
        return str(minor)
    whole, fraction = divmod(minor, 10**decimals)
    return f"{whole}.{fraction:0{decimals}d}"
