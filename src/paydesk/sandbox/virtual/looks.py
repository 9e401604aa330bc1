"""How the page shows each screen, why a screen takes no action, and what the page offers: cards and scripts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from paydesk.sandbox.simulator.cards import CARDS
from paydesk.sandbox.terminals.actions import ActionName
from paydesk.sandbox.terminals.screen import Screen
from paydesk.sandbox.terminals.screens import CARD_ACTIONS, ROWS, Row, ScreenName

CONTACTLESS, STUBBORN_CARD = ("tap", "phone"), "wrong_pin"


def look_of(screen: Screen) -> Row:
    """Return the row of the screen as it looks now."""
    look = ROWS[screen.name]
    if screen.name == "authorizing" and screen.entry in CONTACTLESS:
        return msgspec.structs.replace(look, lights="tapped")
    if screen.name == "remove_card" and screen.status_detail not in (None, "accredited"):
        return msgspec.structs.replace(look, tone="bad", art="cross", lights="failed")
    if screen.name in ("present_card", "pin") and not screen.actions:
        return msgspec.structs.replace(look, art="spinner", lights="works", hint="The terminal asks for the permit.")
    if screen.name == "pin" and screen.card == STUBBORN_CARD:
        return msgspec.structs.replace(look, hint="This card refuses every PIN: after the third it is blocked.")
    return look


def refusal_of(action: ActionName, screen: ScreenName) -> str:
    """Return in words why the screen does not take the action; empty where there are none."""
    if action in (*CARD_ACTIONS, "scan"):
        return ROWS[screen].refuses or "The terminal asks for no card now."
    if action in ("press", "press_cancel"):
        return ROWS[screen].refuses or "This key does nothing now."
    return ""


class TrayCard(msgspec.Struct, frozen=True):
    """A card of the tray: its code, its name in words, and the colour of its drawing."""

    code: str
    name: str
    colour: str


_APPROVED = {
    "visa_approved": ("Visa credit", "blue"),
    "master_approved": ("Mastercard credit", "rust"),
    "amex_approved": ("Amex credit", "teal"),
    "debvisa_approved": ("Visa debit", "blue"),
    "debmaster_approved": ("Mastercard debit", "rust"),
}
_DECLINED = {
    "insufficient_amount": "Not enough money",
    "card_disabled": "Card disabled",
    "required_call_for_authorize": "Call the bank",
    "amount_limit_exceeded": "Over the card's limit",
    "rejected_by_issuer": "Refused by the bank",
    "high_risk": "Suspected fraud",
    "bad_filled_card_data": "Wrong card data",
    "max_attempts_exceeded": "Too many tries",
    "invalid_installments": "Installments refused",
    "processing_error": "Processing error",
    "rejected_other_reason": "Other reason",
}
_AWKWARD = {
    "wrong_pin": "Wrong PIN, three times",
    "no_answer": "No answer",
    "late": "Late answer, after 30 s",
    "slow": "Slow, 5 s",
}

TRAY: Mapping[str, tuple[TrayCard, ...]] = {
    "Approved": tuple(TrayCard(code, *shown) for code, shown in _APPROVED.items()),
    "Declined": tuple(TrayCard(code, name, "grey") for code, name in _DECLINED.items()),
    "Awkward": tuple(TrayCard(code, name, "violet") for code, name in _AWKWARD.items()),
}
WAYS = (("tap", "Tap"), ("insert", "Insert"), ("swipe", "Swipe"), ("phone", "Phone"))
"""How a card is presented, with the words for it."""
SCRIPTS = (
    ("manual", "You"),
    ("approve", "Script: approve"),
    ("decline:rejected_by_issuer", "Script: decline"),
    ("cancel", "Script: cancel"),
    ("no_answer", "Script: no_answer"),
    ("hold", "Script: hold"),
    ("ignore", "Script: ignore"),
)
"""The scripts that the page offers, by the names that commands have."""
CARD_COLOURS = {card.code: card.colour for group in TRAY.values() for card in group}
assert CARD_COLOURS.keys() == CARDS.keys(), "the tray has every card"
