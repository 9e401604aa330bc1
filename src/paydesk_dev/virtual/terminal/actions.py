"""What a person can do at a virtual terminal, on its page or by API, and the dialogue about one order.

The dialogue goes from the tip to the card and its PIN. It awaits nothing: an action is taken or refused at once, so
that of two at the same time one sees the screen after the other. The digits of a PIN are counted, never kept.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from paydesk.engine.payments.simulator.cards import CARDS
from paydesk_dev.virtual.scripts import presented
from paydesk_dev.virtual.terminal.panel import Panel
from paydesk_dev.virtual.terminal.screens import CARD_ACTIONS, INSTALLMENTS, TRIES_MAX, Screen

PIN_DIGITS_MIN, PIN_DIGITS_MAX = 4, 6
ACTIONS: Mapping[str, str] = {
    "tap": "card",
    "insert": "card",
    "swipe": "card",
    "phone": "card",
    "scan": "",
    "pin": "digits",
    "choose": "value",
    "press": "key",
    "press_cancel": "",
    "remove_card": "",
    "reboot": "",
    "power_off": "",
    "power_on": "",
    "take_paper": "",
    "load_paper": "",
    "go_offline": "seconds noticed",
    "go_online": "",
    "lose_acknowledgement": "",
    "set_script": "script",
}
"""Each action with the fields that it takes, if any. Rows of `screens.py` name the actions that a screen takes."""

# The API lists the names in its document.
if TYPE_CHECKING:
    ActionName = str
else:
    ActionName = Literal[tuple(ACTIONS)]
Key = Literal["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "00", ".", "ok", "clear", "cancel"]
WRONG_PIN = "wrong_pin"
"""The test card whose PIN is always wrong."""
ANOTHER_WAY: Mapping[tuple[str, str], str] = {
    ("chip_unreadable", "insert"): "The chip cannot be read: swipe the card",
    **dict.fromkeys((("insert_only", "tap"), ("insert_only", "phone")), "Insert the card"),
}
"""What the terminal asks for instead, by the test card and the action that presents it."""
CANCELED = {"outcome": "canceled", "status_detail": "canceled_on_terminal"}
"""The result when the buyer or cashier canceled at the terminal before the permit."""
_PIN = re.compile(f"[0-9]{{{PIN_DIGITS_MIN},{PIN_DIGITS_MAX}}}", re.ASCII)
_DIGITS = tuple("0123456789")
_TAKES_PINS = f"takes a PIN of {PIN_DIGITS_MIN} to {PIN_DIGITS_MAX} digits"


class Action(msgspec.Struct, frozen=True):
    """An action with its fields; those that it has no use for are empty.

    `tap`, `insert`, `swipe`, `phone`: present `card`. `scan`: the buyer pays with a wallet's QR code. `pin`: type
    `digits` and press OK. `choose`: a tip or a number of installments (`value`). `press`: a key of the keypad.
    `take_paper`: nothing is printed until `load_paper`. `go_offline`: no network, for `seconds` if they are given.
    `lose_acknowledgement`: the next acknowledgement is lost on its way. `set_script`: from the next order on.
    """

    name: ActionName
    card: str = ""
    digits: str = ""
    value: int | None = None
    key: Key | None = None
    seconds: float | None = None
    script: str = ""


class ActionNotPossible(Exception):
    """The screen does not take the action."""

    def __init__(self, screen: Screen, reason: str) -> None:
        super().__init__(reason)
        self.screen = screen

    @classmethod
    def on(cls, screen: Screen, action: Action) -> Self:
        """Return the refusal of an action that the screen does not have."""
        return cls(screen, f"the screen {screen.name} does not take {action.name}")


class Dialogue:
    """A dialogue about the order on the panel. `ended` is set at its end; `steps` are those to report.

    `presented` is what the buyer presented, `result` how the order ended if the acquirer is not to be asked. With
    `asks` it shows the first question; without it the terminal asks for the card already.
    """

    def __init__(self, panel: Panel, *, asks: bool) -> None:
        assert panel.order is not None, "the order is shown"
        self._panel, self._screens = panel, panel.order
        self._order = order = panel.order.order
        self._tip_percent, self._wrong, self._digits = 0, 0, 0
        method = order.get("payment_method") or {}
        self._installments = int(method.get("default_installments", 1))
        self._questions = list[Screen]()
        self.steps: asyncio.Queue[str] = asyncio.Queue()
        self.ended = asyncio.Event()
        self.presented: dict[str, Any] = {}
        self.result: dict[str, Any] | None = None
        if asks:
            if tips := tuple((order.get("tip") or {}).get("percentages", ())):
                self._questions.append(self._screens.tip(tips))
            if method.get("default_type") == "credit_card" and "default_installments" not in method:
                self._questions.append(self._screens.screen("installments", choices=INSTALLMENTS))
            self._ask()

    def _ask(self) -> None:
        """Show the next question, or the request for a card after the last one."""
        if self._questions:
            self._panel.show(self._questions.pop(0))
            return
        self.steps.put_nowait("card_requested")
        self._ask_for_card()

    def _ask_for_card(self, asked: str = "") -> None:
        tip = presented.by_person(self._order, "", "scan", tip_percent=self._tip_percent).get("tip_amount", "")
        self._panel.show(self._screens.present_card(tip, asked))

    def act(self, action: Action) -> None:
        """Take an action of the screen. Raises `ActionNotPossible`, and `ValueError` for an unknown card."""
        match self._panel.screen.name, action.name:
            case _, "press_cancel" | "remove_card":
                self.presented = {}
                self._screens.entry = "" if action.name == "remove_card" else self._screens.entry
                self._end(CANCELED)
            case _, "choose":
                self._choose(action.value)
            case "tip" | "installments", "press" if action.key in _DIGITS:
                self._choose(int(action.key))
            case "pin", "pin" if _PIN.fullmatch(action.digits):
                self._confirm_pin()
            case "pin", "pin":
                raise self._refused(_TAKES_PINS)
            case "pin", "press" if action.key not in (None, "00", "."):
                self._press(action.key)
            case _, "press":
                raise self._refused(f"has no use for the key {action.key}")
            case _:
                self._present(action)

    def _press(self, key: Key) -> None:
        """Take a key while the PIN is entered."""
        if key == "clear":
            self._show_digits(max(self._digits - 1, 0))
        elif key != "ok" and self._digits == PIN_DIGITS_MAX:
            raise self._refused(f"takes at most {PIN_DIGITS_MAX} digits")
        elif key != "ok":
            self._show_digits(self._digits + 1)
        elif self._digits < PIN_DIGITS_MIN:
            raise self._refused(f"{_TAKES_PINS}; {self._digits} are entered")
        else:
            self._confirm_pin()

    def _choose(self, value: int | None) -> None:
        screen = self._panel.screen
        if value not in screen.choices:
            raise self._refused(f"offers {', '.join(map(str, screen.choices))}")
        if screen.name == "tip":
            self._tip_percent = value
        else:
            self._installments = value
        self._ask()

    def _present(self, action: Action) -> None:
        entry = action.name
        if entry in CARD_ACTIONS and action.card not in CARDS:
            raise ValueError(f"unknown card {action.card!r}; valid cards: {', '.join(CARDS)}")
        if another_way := ANOTHER_WAY.get((action.card, entry)):
            self._ask_for_card(another_way)
            return
        self._screens.card, self._screens.entry = action.card if entry != "scan" else "", entry
        self.presented = presented.by_person(self._order, action.card, entry, self._installments, self._tip_percent)
        self.steps.put_nowait("card_presented")
        if entry == "insert":
            self.steps.put_nowait("pin_requested")
            self._panel.show(self._screens.pin())
        else:
            self._end(None)

    def _confirm_pin(self) -> None:
        self.steps.put_nowait("pin_entered")
        self._wrong += self._screens.card == WRONG_PIN
        if not self._wrong:
            self._end(None)
        elif self._wrong < TRIES_MAX:
            self.steps.put_nowait("pin_requested")
            self._show_digits(0)
        else:
            # The card is blocked: the acquirer is not asked.
            self._end({"outcome": "declined", "status_detail": "max_attempts_exceeded", **self.presented})

    def _show_digits(self, count: int) -> None:
        self._digits = count
        self._panel.show(self._screens.pin(count, self._wrong))

    def _end(self, result: dict[str, Any] | None) -> None:
        """End with this result, or without one with what was presented."""
        self.result = result
        if result is None:
            self._panel.show(self._screens.presented())
        else:
            self._panel.end(self._screens.outcome(result))
        self.ended.set()

    def _refused(self, reason: str) -> ActionNotPossible:
        screen = self._panel.screen
        return ActionNotPossible(screen, f"the screen {screen.name} {reason}")
