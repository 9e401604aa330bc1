"""The cells of an order in a list: its status with the reason, its card; and the totals of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from paydesk.console.statuses import Look, order_look
from paydesk.core.money import CURRENCIES, decimal_string, minor_units
from paydesk.operators.orders import reasons
from paydesk.operators.orders.reasons import Document, payment_of

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


def look_of(order: Document) -> Look:
    """Return how the status of an order is shown."""
    return order_look(order["status"], order["status_detail"], payment_of(order)["status_detail"])


def reason_of(order: Document) -> str:
    """Return the reason of the status in words, empty where the status needs none."""
    if look_of(order).colour in WITHOUT_REASON:
        return ""
    return reasons.reason_of(order["status"], payment_of(order)["status_detail"])


def card_of(order: Document) -> str:
    """Return the brand and the last digits of the card that paid, or that was declined."""
    payment = payment_of(order)
    method = payment.get("payment_method", {}).get("id", "")
    digits = order.get("last_digits") or payment.get("card", {}).get("last_digits", "")
    return " ".join(part for part in (BRANDS.get(method, method), f"•••• {digits}" if digits else "") if part)


def totals(orders: Iterable[Document]) -> list[str]:
    """Return the totals of the orders in a few words each: the number, and what was paid and refunded by currency."""
    count = 0
    paid: Counter[str] = Counter()
    refunded: Counter[str] = Counter()
    for order in orders:
        count += 1
        payment, currency = payment_of(order), order["currency"]
        for sums, name in ((paid, "paid_amount"), (refunded, "refunded_amount")):
            sums[currency] += minor_units(payment.get(name, "0"), CURRENCIES[currency].decimals) or 0
    words = [f"{count} order" if count == 1 else f"{count} orders"]
    for sums, verb in ((paid, "paid"), (refunded, "refunded")):
        for currency, minor in sorted(sums.items()):
            if minor:
                words.append(f"{decimal_string(minor, CURRENCIES[currency].decimals)} {currency} {verb}")
    return words
