"""What the page of a virtual terminal and the console offer: cards, the ways to present them, and scripts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from paydesk.engine.payments.simulator.cards import CARDS


class TrayCard(msgspec.Struct, frozen=True):
    """A card of the tray: its code, its name in words, and the colour of its drawing."""

    code: str
    name: str
    colour: str = "grey"


TRAY: Mapping[str, tuple[TrayCard, ...]] = {
    "Approved": (
        TrayCard("visa_approved", "Visa credit", "blue"),
        TrayCard("master_approved", "Mastercard credit", "rust"),
        TrayCard("amex_approved", "Amex credit", "teal"),
        TrayCard("debvisa_approved", "Visa debit", "blue"),
        TrayCard("debmaster_approved", "Mastercard debit", "rust"),
    ),
    "Declined": (
        TrayCard("insufficient_amount", "Not enough money"),
        TrayCard("card_disabled", "Card disabled"),
        TrayCard("required_call_for_authorize", "Call the bank"),
        TrayCard("amount_limit_exceeded", "Over the card's limit"),
        TrayCard("rejected_by_issuer", "Refused by the bank"),
        TrayCard("high_risk", "Suspected fraud"),
        TrayCard("bad_filled_card_data", "Wrong card data"),
        TrayCard("max_attempts_exceeded", "Too many tries"),
        TrayCard("invalid_installments", "Installments refused"),
        TrayCard("processing_error", "Processing error"),
        TrayCard("rejected_other_reason", "Other reason"),
    ),
    "Awkward": (
        TrayCard("wrong_pin", "Wrong PIN, three times", "violet"),
        TrayCard("no_answer", "No answer", "violet"),
        TrayCard("late", "Late answer, after 30 s", "violet"),
        TrayCard("slow", "Slow, 5 s", "violet"),
        TrayCard("chip_unreadable", "Chip cannot be read", "violet"),
        TrayCard("insert_only", "Must be inserted", "violet"),
    ),
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
