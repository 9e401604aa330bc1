"""An order as a row of a list: its status with the reason, its amount, card and terminal; and the totals of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from paydesk.console import view
from paydesk.console.reasons import payment_of, reason_of
from paydesk.core.money import CURRENCIES, decimal_string, minor_units, spelled
from paydesk.web.statuses import Look, order_look

Document = Mapping[str, Any]

BRANDS = {
    "visa": "Visa",
    "master": "Mastercard",
    "amex": "Amex",
    "debvisa": "Visa debit",
    "debmaster": "Mastercard debit",
}
"""The names of payment methods; others are shown by their id."""
WITHOUT_REASON = ("ok", "back")
"""The colours of statuses that need no reason."""


@dataclass(frozen=True, slots=True)
class OrderRow:
    """One row. `why` is the reason in words, empty where the status needs none."""

    id: str
    created_date: str
    look: Look
    why: str
    amount: str
    currency: str
    reference: str
    terminal_id: str
    card: str
    live_mode: bool

    @property
    def terminal(self) -> str:
        """Return the terminal's serial number, shortened."""
        return view.short(self.terminal_id.rpartition("__")[2], 4, 4)

    @property
    def is_final(self) -> bool:
        """Return whether the order ended without a payment."""
        return self.look.colour in ("bad", "off")


def row_of(order: Document) -> OrderRow:
    """Return the row of an order of the list."""
    payment = payment_of(order)
    detail = payment["status_detail"]
    look = order_look(order["status"], order["status_detail"], detail)
    return OrderRow(
        id=order["id"],
        created_date=order["created_date"],
        look=look,
        why=reason_of(order["status"], detail) if look.colour not in WITHOUT_REASON else "",
        amount=spelled(order["total_amount"], order["currency"]),
        currency=order["currency"],
        reference=order.get("external_reference", ""),
        terminal_id=order["config"]["point"]["terminal_id"],
        card=_card(order, payment),
        live_mode=order["live_mode"],
    )


def totals(orders: Iterable[Document]) -> list[str]:
    """Return the totals of the orders in a few words each: the number, and what was paid and refunded by currency."""
    count = 0
    paid: Counter[str] = Counter()
    refunded: Counter[str] = Counter()
    for order in orders:
        count += 1
        payment, currency = payment_of(order), order["currency"]
        paid[currency] += _minor(payment.get("paid_amount"), currency)
        refunded[currency] += _minor(payment.get("refunded_amount"), currency)
    words = [f"{count} order" if count == 1 else f"{count} orders"]
    for sums, verb in ((paid, "paid"), (refunded, "refunded")):
        words += [f"{_decimal(minor, currency)} {currency} {verb}" for currency, minor in sorted(sums.items()) if minor]
    return words


def _card(order: Document, payment: Document) -> str:
    """Return the brand and the last digits of the card that paid, or that was declined."""
    method = payment.get("payment_method", {}).get("id", "")
    digits = order.get("last_digits") or payment.get("card", {}).get("last_digits", "")
    return " ".join(part for part in (BRANDS.get(method, method), f"•••• {digits}" if digits else "") if part)


def _minor(amount: str | None, currency: str) -> int:
    return minor_units(amount or "0", CURRENCIES[currency].decimals) or 0


def _decimal(minor: int, currency: str) -> str:
    return decimal_string(minor, CURRENCIES[currency].decimals)
