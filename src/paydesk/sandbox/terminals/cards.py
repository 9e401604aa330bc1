"""What a virtual terminal presents to the acquirer, and the result that it reports for each answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paydesk.sandbox.simulator.cards import CARDS

JsonObject = dict[str, Any]

APPROVED, APPROVED_DEBIT = "visa_approved", "debvisa_approved"


def presented(order: Mapping[str, Any], name: str, entry_mode: str) -> JsonObject:
    """The payment method and the card of that name; as a debit card where the order wants one.

    The last digits, by which the acquirer knows a test card, stay those of the name.
    """
    wanted = order.get("payment_method") or {}
    is_debit = wanted.get("default_type") == "debit_card"
    if is_debit and name == APPROVED:
        name = APPROVED_DEBIT
    brand = CARDS[APPROVED_DEBIT] if is_debit else CARDS[name]
    return {
        "payment_method": {
            "id": brand.brand,
            "type": brand.type,
            "installments": wanted.get("default_installments", 1),
        },
        "card": {
            "first_digits": brand.first_digits,
            "last_digits": CARDS[name].last_digits,
            "entry_mode": entry_mode,
        },
    }


def result(order: Mapping[str, Any], shown: JsonObject, answer: Mapping[str, Any]) -> JsonObject:
    """The result of what the acquirer answered about the order; what isn't an answer is an unknown outcome."""
    match answer.get("outcome"):
        case "approved":
            return {
                "outcome": "approved",
                "status_detail": "accredited",
                **shown,
                "paid_amount": order["amount"],
                "authorization_code": answer["authorization_code"],
                "reference_id": answer["reference_id"],
            }
        case "declined":
            return {"outcome": "declined", "status_detail": answer["status_detail"], **shown}
        case "not_sent":
            return never_charged()
        case _:
            return unknown()


def never_charged() -> JsonObject:
    """The terminal was granted the payment and did not go to the acquirer."""
    return {"outcome": "declined", "status_detail": "processing_error"}


def unknown() -> JsonObject:
    """The terminal went to the acquirer and has no answer."""
    return {"outcome": "unknown"}


def canceled() -> JsonObject:
    """The buyer or the cashier pressed the red key before the grant."""
    return {"outcome": "canceled", "status_detail": "canceled_on_terminal"}
