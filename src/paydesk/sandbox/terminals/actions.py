"""What a person can do at a virtual terminal, on its page or by API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from paydesk.sandbox.terminals.screen import Screen

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
    "go_offline": "seconds",
    "go_online": "",
    "lose_acknowledgement": "",
    "set_script": "script",
}
"""Each action with the field that it takes, if any. Rows of `screens.py` name the actions that a screen takes."""

if TYPE_CHECKING:
    ActionName = str
else:
    ActionName = Literal[tuple(ACTIONS)]
Key = Literal["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "00", ".", "ok", "clear", "cancel"]


class Action(msgspec.Struct, frozen=True):
    """An action with its fields; those that it has no use for are empty.

    `tap`, `insert`, `swipe`, `phone`: present `card`. `scan`: the buyer pays with a wallet's QR code. `pin`: type
    `digits` and press OK. `choose`: a tip or a number of installments (`value`). `press`: a key of the keypad.
    `go_offline`: no network, for `seconds` if they are given. `lose_acknowledgement`: the next acknowledgement is
    lost on its way. `set_script`: from the next order on.
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
