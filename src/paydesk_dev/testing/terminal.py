"""A virtual terminal of a test, and what a person does at it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

from paydesk_dev.testing.documents import Document, Screen
from paydesk_dev.testing.errors import NotShown, Refused
from paydesk_dev.testing.plan import Plan

CARD = "visa_approved"
POLL_SECONDS_MAX = 2.0
PAUSE_SECONDS = 0.03
SHOWN_AT = {**dict.fromkeys(("tap", "insert", "swipe", "phone", "scan"), "present_card"), "pin": "pin"}
"""The screens that take these steps."""


class Terminal:
    """A virtual terminal. Each step returns the screen after it; one that a screen must take waits for that screen."""

    def __init__(self, ask: Callable[..., Any], document: Document, seconds: float) -> None:
        self._ask, self._seconds = ask, seconds
        self.id, self.page_url = str(document["id"]), str(document.get("page_url", ""))
        self.will = Plan(self.id, lambda step, *values, **fields: getattr(_Later(self), step)(*values, **fields))
        """The same steps, later, in their order: they return at once, and a thread waits for the screens."""

    def tap(self, card: str = CARD) -> Screen:
        """Tap a card."""
        return self._take("tap", card=card)

    def insert(self, card: str = CARD) -> Screen:
        """Insert a card; it stays in until `remove_card`."""
        return self._take("insert", card=card)

    def swipe(self, card: str = CARD) -> Screen:
        """Swipe a card."""
        return self._take("swipe", card=card)

    def phone(self, card: str = CARD) -> Screen:
        """Tap a phone that has this card."""
        return self._take("phone", card=card)

    def scan(self) -> Screen:
        """Pay with a wallet by the QR code."""
        return self._take("scan")

    def choose(self, value: int) -> Screen:
        """Choose a tip in per cent, or a number of installments."""
        return self._take("choose", value=value)

    def pin(self, digits: str = "1234", *, times: int = 1) -> Screen:
        """Type a PIN, so many times."""
        for _ in range(times):
            screen = self._take("pin", digits=digits)
        return screen

    def press(self, key: str) -> Screen:
        """Press a key."""
        return self._take("press", key=key)

    def press_cancel(self) -> Screen:
        """Press the red key."""
        return self._take("press_cancel")

    def remove_card(self, *, at: str = "") -> Screen:
        """Take the card out, once it may be, or at this screen: too early, it ends the payment."""
        self.wait_for(at or "remove_card")
        return self._act("remove_card")

    def power_off(self) -> Screen:
        """Pull the plug."""
        return self._act("power_off")

    def power_on(self) -> Screen:
        """Plug it in; it goes on from its journal."""
        return self._act("power_on")

    def reboot(self) -> Screen:
        """Start it again."""
        return self._act("reboot")

    def take_paper(self) -> Screen:
        """Take the paper roll out."""
        return self._act("take_paper")

    def load_paper(self) -> Screen:
        """Put a paper roll in."""
        return self._act("load_paper")

    def go_offline(self, seconds: float | None = None, *, noticed: bool = False) -> Screen:
        """Cut its network, for some seconds or until `go_online`. `noticed`: the service knows at once."""
        fields = {"seconds": seconds, "noticed": noticed or None}
        return self._act("go_offline", **{name: value for name, value in fields.items() if value is not None})

    def go_online(self) -> Screen:
        """Restore its network."""
        return self._act("go_online")

    def screen(self) -> Screen:
        """Return what it shows."""
        return self._shown("")

    def wait_for(self, screen: str, *, seconds: float | None = None) -> Screen:
        """Return the screen once it shows it; `permitted`: once the terminal may charge. Raises `NotShown`."""
        left = self._patience(seconds)
        while True:
            remaining, began = left(), time.monotonic()
            wait = math.ceil(min(max(remaining, 1), POLL_SECONDS_MAX))
            shown = self._shown(f"?wait={wait}&until={screen}")
            # An answer before its time has what it waited for. `permitted` is no screen.
            if shown.name == screen or time.monotonic() - began < wait:
                return shown
            if remaining <= 0:
                raise NotShown(f"{self.id} does not show {screen}; {seen(shown)}.")

    async def wait_for_async(self, screen: str, *, seconds: float | None = None) -> Screen:
        """Do as `wait_for` without blocking the event loop."""
        return await asyncio.to_thread(self.wait_for, screen, seconds=seconds)

    def close(self) -> None:
        """Cancel what it does and delete it. One that may be charging is deleted when its order ends."""
        self.will.stop()
        try:
            self._ask("DELETE", f"{self._path}?cancel=true")
        except Refused as refused:
            if refused.status != 404:
                raise

    @property
    def _path(self) -> str:
        return f"/virtual/v1/terminals/{self.id}"

    def _shown(self, query: str) -> Screen:
        return Screen(self._ask("GET", f"{self._path}/screen{query}"))

    def _act(self, action: str, **fields: Any) -> Screen:
        return Screen(self._ask("POST", f"{self._path}/actions", {"action": action, **fields}))

    def _take(self, action: str, **fields: Any) -> Screen:
        """Wait for a screen that takes the action, and act. Raises `NotShown`."""
        left = self._patience(None)
        while True:
            remaining, until = left(), SHOWN_AT.get(action)
            wait = math.ceil(min(max(remaining, 0), POLL_SECONDS_MAX))
            shown = self._shown(f"?wait={wait}&until={until}" if until and wait else "")
            if action in shown.get("actions", ()):
                try:
                    return self._act(action, **fields)
                except Refused as refused:
                    # The screen has changed meanwhile.
                    if refused.code != "action_not_possible":
                        raise
            if remaining <= 0:
                takes = ", ".join(shown.get("actions", ())) or "nothing"
                raise NotShown(f"{action} was not possible at {self.id}: {seen(shown)}, which takes {takes}.")
            if not until or shown.name == until:
                time.sleep(PAUSE_SECONDS)

    def _patience(self, seconds: float | None) -> Callable[[], float]:
        """Return a function for the seconds left."""
        end = time.monotonic() + (self._seconds if seconds is None else seconds)
        return lambda: end - time.monotonic()


class _Later(Terminal):
    """A terminal whose steps wait as long as the plan does."""

    def __init__(self, terminal: Terminal) -> None:
        self.__dict__.update(terminal.__dict__)

    def _patience(self, seconds: float | None) -> Callable[[], float]:
        return self.will.left if seconds is None else super()._patience(seconds)


def seen(shown: Screen) -> str:
    """Return what a screen shows, in words."""
    about = f" about {shown.order_id}" if "order_id" in shown else ""
    return f"it shows {shown.name}{about} ({' / '.join(shown.lines)})"
