"""What the buyer presents: a test card or a wallet, the installments and the tip, as a result reports them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paydesk.core.money import CURRENCIES, decimal_string, minor_units
from paydesk.engine.payments.simulator.cards import CARDS, TestCard

APPROVED, APPROVED_DEBIT = "visa_approved", "debvisa_approved"
ENTRY_MODES = {"tap": "contactless", "phone": "contactless", "insert": "chip", "swipe": "magnetic_stripe"}
"""How a card is read, by the action that presents it."""


def by_script(order: Mapping[str, Any], name: str, entry_mode: str, tip_percent: int = 0) -> dict[str, Any]:
    """Return the test card of that name, as a debit card if the order prefers one, and the tip if it is offered.

    The last four digits, which select the acquirer's rules, stay those of the name.
    """
    preferred = order.get("payment_method") or {}
    is_debit = preferred.get("default_type") == "debit_card"
    if is_debit and name == APPROVED:
        name = APPROVED_DEBIT
    brand = CARDS[APPROVED_DEBIT] if is_debit else CARDS[name]
    card = _card(brand, CARDS[name].last_digits, entry_mode, preferred.get("default_installments", 1))
    return {**card, **_tip(order, tip_percent)}


def by_person(
    order: Mapping[str, Any], name: str, entry: str, installments: int = 1, tip_percent: int = 0
) -> dict[str, Any]:
    """Return the test card of that name as the action `entry` presents it; or a wallet, if the action is `scan`."""
    tip = _tip(order, tip_percent)
    if entry == "scan":
        return {"payment_method": {"id": "account_money", "type": "qr", "installments": 1}, **tip}
    card = CARDS[name]
    times = installments if card.type == "credit_card" else 1
    return {**_card(card, card.last_digits, ENTRY_MODES[entry], times), **tip}


def _card(brand: TestCard, last_digits: str, entry_mode: str, installments: int) -> dict[str, Any]:
    return {
        "payment_method": {"id": brand.brand, "type": brand.type, "installments": installments},
        "card": {"first_digits": brand.first_digits, "last_digits": last_digits, "entry_mode": entry_mode},
    }


def _tip(order: Mapping[str, Any], percent: int) -> dict[str, str]:
    """Return the tip of that percentage, rounded up to a minor unit, if the terminal offers it."""
    if percent not in (order.get("tip") or {}).get("percentages", ()):
        return {}
    decimals = CURRENCIES[order["currency"]].decimals
    tip_minor = -(-(minor_units(order["amount"], decimals) or 0) * percent // 100)
    return {"tip_amount": decimal_string(tip_minor, decimals)}


def paid_amount(order: Mapping[str, Any], presented: Mapping[str, Any]) -> str:
    """Return the order's amount and the tip, as the order spells its amount if there is no tip."""
    if "tip_amount" not in presented:
        return str(order["amount"])
    decimals = CURRENCIES[order["currency"]].decimals
    amounts = minor_units(order["amount"], decimals), minor_units(presented["tip_amount"], decimals)
    return decimal_string(sum(amount or 0 for amount in amounts), decimals)
