"""The screens of a virtual terminal: a row for each, with its text, what it takes, how it looks, and when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

CARD_ACTIONS = ("tap", "insert", "swipe", "phone")
NOTHING_CHARGED = "Nothing was charged"


class Row(msgspec.Struct, frozen=True):
    """What all screens of a name have in common."""

    lines: tuple[str, ...]
    """The text. What differs from screen to screen is named in braces; a line that is empty then is left out."""
    stage: Literal["between", "open", "outcome", "end", "printing"]
    """Between orders, during an order, its outcome, its end without a payment, or while paper is printed."""
    tone: Literal["plain", "ok", "bad", "look", "off", "dark"] = "plain"
    """Colours the glass."""
    art: str = ""
    """A drawing in `art.html`."""
    lights: Literal["none", "waits", "tapped", "works", "done", "failed"] = "none"
    hint: str = ""
    """For the person in front of the page."""
    refuses: str = ""
    """Why it takes no card or key."""
    actions: tuple[str, ...] = ()
    """What it takes besides what every screen takes (`actions.py`)."""
    seconds: float | None = None
    """How long it is shown before what is shown between orders, if it ends so."""
    is_brief: bool = False
    """Whether another screen follows in a moment: without JavaScript the page reloads."""
    counts: str = ""
    """The words for the time left, if the page counts it."""
    counts_from: int = 3_600
    """The seconds left from which on it is counted."""
    name: str = ""
    """The name of the screen, if that is another row's: this row has only another text."""


_TAKES_CARDS = (*CARD_ACTIONS, "scan", "press_cancel", "press")
_PRESENT = "Press a card, or drag it: top taps, bottom inserts, right edge swipes."
_CHOOSE = "The buyer chooses: press a button, or its digits on the keypad."
_TAKES_CHOICES = ("choose", "press_cancel", "press")

# fmt: off
ROWS: Mapping[str, Row] = {
    "pairing": Row(
        ("Type this code in the console", "{code}"), "between", counts="{} left",
        hint="An operator types this code, and the terminal belongs to a seller.",
    ),
    "idle": Row(
        ("Ready", "{seller}", "Waiting for an order"), "between", art="ready",
        refuses="The terminal waits for an order. Create one first.",
    ),
    "amount": Row(
        ("{sum}", "New order", "{seller}"), "open", "plain", "waves", "waits", hint=_PRESENT,
        actions=_TAKES_CARDS, counts="{} left", is_brief=True,
    ),
    "tip": Row(
        ("Add a tip?", "{sum}", "{offered} or no tip"), "open", hint=_CHOOSE,
        actions=_TAKES_CHOICES,
    ),
    "installments": Row(
        ("How many installments?", "{sum}", "1, 2, 3, 6 or 12"), "open", hint=_CHOOSE,
        actions=_TAKES_CHOICES,
    ),
    "present_card": Row(
        ("{sum}", "{tip}", "{asked}", "{seller}"), "open", "plain", "waves", "waits", hint=_PRESENT,
        actions=_TAKES_CARDS, counts="{} left", counts_from=30,
    ),
    "pin": Row(
        ("{sum}", "{again}", "Enter your PIN, then the green key", "{entered}"), "open", lights="works",
        actions=("pin", "press", "press_cancel"),
        hint="Any four to six digits are right, then the green key.",
        refuses="The terminal asks for a PIN: type it on the keypad, then press the green key.",
    ),
    "authorizing": Row(
        ("{sum}", "Authorizing", "{hold}"), "open", "plain", "spinner", "works", is_brief=True,
        hint="The terminal has the permit and asks the acquirer. Pull the plug to see how it ends.",
        refuses="The acquirer is being asked. Wait for its answer.",
    ),
    "approved": Row(
        ("Approved", "{paid}", "{card}"), "outcome", "ok", "check", "done", seconds=5, is_brief=True,
        hint="The order is processed. The webhook is on its way.",
    ),
    "declined": Row(
        ("Declined", "{reason}", NOTHING_CHARGED), "outcome", "bad", "cross", "failed", seconds=5, is_brief=True,
        hint="The order has failed, with this reason as its detail.",
    ),
    "remove_card": Row(
        ("Remove the card",), "outcome", "ok", "check", "done", actions=("remove_card",),
        hint="Press the card in the terminal to remove it.",
        refuses="Remove the card from the slot first.",
    ),
    "unknown": Row(
        ("Outcome not known", "Do not charge again", "Paydesk asks the bank what happened"), "open",
        "look", "triangle", "failed", actions=("remove_card",), seconds=300,
        hint="The order is at check_on_terminal until the acquirer answers.",
        refuses="The outcome is not known yet: do not charge again.",
    ),
    "printing": Row(
        ("Printing", "Please take the receipt"), "printing", "plain", "printer", "works",
        actions=("remove_card",), is_brief=True,
    ),
    "canceled": Row(
        ("Canceled{how}", NOTHING_CHARGED), "end", "off", "dash", seconds=4, is_brief=True,
        hint="The order is canceled, and the terminal is free again.",
    ),
    "expired": Row(
        ("Too late", "The order expired before the payment", NOTHING_CHARGED), "end", "off", "clock",
        seconds=4, is_brief=True,
        hint="The order has expired, and the terminal is free again.",
    ),
    "offline": Row(
        ("No connection", "{reason}", "It tries again by itself"), "between", "off", "offline",
        counts="Next try in {}", is_brief=True,
        hint="No message leaves or arrives. Orders wait until the network is back.",
        refuses="The terminal has no network.",
    ),
    "off": Row(
        ("Switched off",), "between", "dark", actions=("power_on",),
        hint="Plug it in: it continues from its journal.",
        refuses="The terminal is switched off. Plug it in first.",
    ),
    "rebooting": Row(
        ("Paydesk", "Starting", "{journal}"), "between", "off", "logo", counts="{} left", is_brief=True,
        hint="It starts again from its journal, as after a power cut.",
        refuses="The terminal is starting. Wait a few seconds.",
    ),
    "standalone": Row(
        ("{mode}", "{seller}", "This terminal takes no orders. Set its mode to PDV."), "between",
        hint="In this mode a terminal takes no orders. An application sets it to PDV.",
        refuses="In this mode the terminal takes no orders.",
    ),
    "card_read": Row(("{sum}", "Card read", "{hold}"), "open", name="present_card"),
    "code_scanned": Row(("{sum}", "Code scanned", "{hold}"), "open", name="present_card"),
    "pin_entered": Row(("{sum}", "PIN entered", "{hold}"), "open", name="pin"),
    "session_ended": Row(("{reason}",), "between", name="offline"),
    "print_action": Row(("Printing", "Please take the paper"), "printing", name="printing"),
}
# fmt: on

if TYPE_CHECKING:
    ScreenName = str
else:
    ScreenName = Literal[tuple(name for name, row in ROWS.items() if not row.name)]
