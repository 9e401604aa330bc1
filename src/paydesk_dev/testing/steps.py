"""The steps of a person at a terminal: a `Terminal` does them at once, a `Plan` later."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

CARD = "visa_approved"
SCREENS: Mapping[str, str] = {
    **dict.fromkeys(("tap", "insert", "swipe", "phone", "scan"), "present_card"),
    "pin": "pin",
    **dict.fromkeys(("choose", "press", "press_cancel"), ""),
}
"""The steps that a screen must take, each with that screen, empty if several take it. Others need no screen."""

Result = TypeVar("Result")


class Steps(ABC, Generic[Result]):
    """The steps. One that a screen must take waits for that screen."""

    @abstractmethod
    def _step(self, action: str, *, at: str = "", times: int = 1, **fields: Any) -> Result:
        """Do this action of the terminal, at any screen that takes it or at this one. None leaves a field out."""

    @abstractmethod
    def wait_for(self, screen: str, *, seconds: float | None = None) -> Result:
        """Wait until it shows the screen; `permitted`: until the terminal may charge. Raises `NotShown`."""

    def tap(self, card: str = CARD) -> Result:
        """Tap a card."""
        return self._step("tap", card=card)

    def insert(self, card: str = CARD) -> Result:
        """Insert a card; it stays in until `remove_card`."""
        return self._step("insert", card=card)

    def swipe(self, card: str = CARD) -> Result:
        """Swipe a card."""
        return self._step("swipe", card=card)

    def phone(self, card: str = CARD) -> Result:
        """Tap a phone that has this card."""
        return self._step("phone", card=card)

    def scan(self) -> Result:
        """Pay with a wallet by the QR code."""
        return self._step("scan")

    def choose(self, value: int) -> Result:
        """Choose a tip in per cent, or a number of installments."""
        return self._step("choose", value=value)

    def pin(self, digits: str = "1234", *, times: int = 1) -> Result:
        """Type a PIN, once or several times."""
        if times < 1:
            raise ValueError(f"times must be 1 or more; it is {times!r}")
        return self._step("pin", digits=digits, times=times)

    def press(self, key: str) -> Result:
        """Press a key."""
        return self._step("press", key=key)

    def press_cancel(self) -> Result:
        """Press the red key."""
        return self._step("press_cancel")

    def remove_card(self, *, at: str = "") -> Result:
        """Take the card out, once it may be, or at this screen: too early, it ends the payment."""
        return self._step("remove_card", at=at or "remove_card")

    def power_off(self) -> Result:
        """Pull the plug."""
        return self._step("power_off")

    def power_on(self) -> Result:
        """Plug it in; it goes on from its journal."""
        return self._step("power_on")

    def reboot(self) -> Result:
        """Start it again."""
        return self._step("reboot")

    def take_paper(self) -> Result:
        """Take the paper roll out."""
        return self._step("take_paper")

    def load_paper(self) -> Result:
        """Put a paper roll in."""
        return self._step("load_paper")

    def go_offline(self, seconds: float | None = None, *, noticed: bool = False) -> Result:
        """Cut its network, for some seconds or until `go_online`. `noticed`: the service knows at once."""
        return self._step("go_offline", seconds=seconds, noticed=noticed or None)

    def go_online(self) -> Result:
        """Restore its network."""
        return self._step("go_online")
