"""How the page shows each screen: its colours, its drawing, the lights, and the hint for the person in front of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from paydesk.sandbox.simulator.cards import CARDS
from paydesk.sandbox.terminals.actions import ActionName
from paydesk.sandbox.terminals.screen import Screen, ScreenName

Lights = Literal["none", "waits", "tapped", "works", "done", "failed"]
CONTACTLESS = ("tap", "phone")
EASY_CARD, STUBBORN_CARD = "Any four to six digits are right, then the green key.", "wrong_pin"


class Look(msgspec.Struct, frozen=True):
    """The look of a screen. `tone` colours the glass, `art` names a drawing in `art.html`."""

    tone: Literal["plain", "ok", "bad", "look", "off", "dark"] = "plain"
    art: str = ""
    lights: Lights = "none"
    hint: str = ""


_PRESENT = "Press a card, or drag it: top taps, bottom inserts, right edge swipes."

LOOKS: Mapping[ScreenName, Look] = {
    "pairing": Look(hint="An operator types this code, and the terminal belongs to a seller."),
    "idle": Look(art="ready"),
    "standalone": Look(hint="In this mode a terminal takes no orders. An application sets it to PDV."),
    "amount": Look(art="waves", lights="waits", hint=_PRESENT),
    "tip": Look(hint="The buyer chooses: press a button, or its digits on the keypad."),
    "installments": Look(hint="The buyer chooses: press a button, or its digits on the keypad."),
    "present_card": Look(art="waves", lights="waits", hint=_PRESENT),
    "pin": Look(lights="works", hint=EASY_CARD),
    "authorizing": Look(
        art="spinner",
        lights="works",
        hint="The terminal has the permit and asks the acquirer. Pull the plug to see how it ends.",
    ),
    "approved": Look("ok", "check", "done", "The order is processed. The webhook is on its way."),
    "declined": Look("bad", "cross", "failed", "The order has failed, with this reason as its detail."),
    "remove_card": Look("ok", "check", "done", "Press the card in the terminal to remove it."),
    "unknown": Look("look", "triangle", "failed", "The order is at check_on_terminal until the acquirer answers."),
    "printing": Look(art="printer", lights="works"),
    "canceled": Look("off", "dash", hint="The order is canceled, and the terminal is free again."),
    "expired": Look("off", "clock", hint="The order has expired, and the terminal is free again."),
    "offline": Look("off", "offline", hint="No message leaves or arrives. Orders wait until the network is back."),
    "off": Look("dark", hint="Plug it in: it continues from its journal."),
    "rebooting": Look("off", "logo", hint="It starts again from its journal, as after a power cut."),
}


def look_of(screen: Screen) -> Look:
    """Return the look of the screen as it is now."""
    look = LOOKS[screen.name]
    if screen.name == "authorizing" and screen.entry in CONTACTLESS:
        return msgspec.structs.replace(look, lights="tapped")
    if screen.name == "remove_card" and screen.status_detail not in (None, "accredited"):
        return msgspec.structs.replace(look, tone="bad", art="cross", lights="failed")
    if screen.name in ("present_card", "pin") and not screen.actions:
        return msgspec.structs.replace(look, art="spinner", lights="works", hint="The terminal asks for the permit.")
    if screen.name == "pin" and screen.card == STUBBORN_CARD:
        return msgspec.structs.replace(look, hint="This card refuses every PIN: after the third it is blocked.")
    return look


_PRESENTING = ("tap", "insert", "swipe", "phone", "scan")
_WHEN = {
    "idle": "The terminal waits for an order. Create one first.",
    "standalone": "In this mode the terminal takes no orders.",
    "authorizing": "The acquirer is being asked. Wait for its answer.",
    "off": "The terminal is switched off. Plug it in first.",
    "offline": "The terminal has no network.",
    "rebooting": "The terminal is starting. Wait a few seconds.",
    "pin": "The terminal asks for a PIN: type it on the keypad, then press the green key.",
    "remove_card": "Remove the card from the slot first.",
    "unknown": "The outcome is not known yet: do not charge again.",
}


def refusal_of(action: ActionName, screen: ScreenName) -> str:
    """Return in words why the screen does not take the action; empty where there are none."""
    if action in _PRESENTING:
        return _WHEN.get(screen, "The terminal asks for no card now.")
    if action in ("press", "press_cancel"):
        return _WHEN.get(screen, "This key does nothing now.")
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
