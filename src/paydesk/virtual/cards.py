"""What a virtual terminal tells of a payment: the cards it knows, and the result for each way a payment can end."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Card:
    """A card out of the tray: its brand and type as on the wire, and the digits that may be shown."""

    brand: str
    type: str
    first_digits: str
    last_digits: str


VISA = Card("visa", "credit_card", "423564", "5682")
DEBIT_VISA = Card("debvisa", "debit_card", "400276", "3704")


def approved(order: Mapping[str, Any]) -> JsonObject:
    """The acquirer approved the order's amount, without a tip."""
    return {
        "outcome": "approved",
        "status_detail": "accredited",
        **_paid_with(order, "contactless"),
        "paid_amount": order["amount"],
        "authorization_code": f"{secrets.randbelow(10**6):06d}",
        # Fourteen digits: no card number has so many, so nobody takes it for one.
        "reference_id": str(10**13 + secrets.randbelow(9 * 10**13)),
    }


def declined(order: Mapping[str, Any], detail: str) -> JsonObject:
    """The acquirer declined for the reason that `detail` names."""
    return {"outcome": "declined", "status_detail": detail, **_paid_with(order, "chip")}


def never_charged() -> JsonObject:
    """The terminal was granted the payment and did not go to the acquirer."""
    return {"outcome": "declined", "status_detail": "processing_error"}


def canceled() -> JsonObject:
    """The buyer or the cashier pressed the red key before the grant."""
    return {"outcome": "canceled", "status_detail": "canceled_on_terminal"}


def _paid_with(order: Mapping[str, Any], entry_mode: str) -> JsonObject:
    wanted = order.get("payment_method") or {}
    card = DEBIT_VISA if wanted.get("default_type") == "debit_card" else VISA
    return {
        "payment_method": {
            "id": card.brand,
            "type": card.type,
            "installments": wanted.get("default_installments", 1),
        },
        "card": {"first_digits": card.first_digits, "last_digits": card.last_digits, "entry_mode": entry_mode},
    }
