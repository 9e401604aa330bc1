"""A virtual terminal of a test, and what a person does at it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from paydesk_dev.testing.blocking import POLL_SECONDS, in_thread
from paydesk_dev.testing.documents import Document, Screen
from paydesk_dev.testing.errors import NotShown, Refused
from paydesk_dev.testing.plan import Plan
from paydesk_dev.testing.steps import SCREENS, Steps

POLL_INTERVAL_SECONDS = 0.03


class Terminal(Steps[Screen]):
    """A virtual terminal. Each step returns the screen after it."""

    def __init__(
        self,
        ask: Callable[..., Any],
        document: Document,
        seconds: float,
        raise_failure: Callable[[], object] = lambda: None,
    ) -> None:
        self._ask, self._seconds, self._raise_failure = ask, seconds, raise_failure
        self.id, self.page_url = str(document["id"]), str(document.get("page_url", ""))
        self.will = Plan(self.id, lambda: _Later(self))
        """The same steps, later, in their order: they return at once, and a thread waits for the screens."""

    def screen(self) -> Screen:
        """Return what it shows."""
        return self._read_screen()

    def wait_for(self, screen: str, *, seconds: float | None = None) -> Screen:
        """Return the screen once it shows it; `permitted`: once the terminal may charge. Raises `NotShown`."""
        seconds_left = self._patience(seconds)
        while True:
            self._raise_failure()
            remaining = seconds_left()
            current = self._read_screen(wait=POLL_SECONDS, until=screen)
            if current.name == screen or (screen == "permitted" and current.permitted):
                return current
            if remaining <= 0:
                raise NotShown(f"{self.id} does not show {screen}; {describe(current)}.")

    wait_for_async = in_thread(wait_for)

    def close(self) -> None:
        """Cancel what it does and delete it. One that may be charging is deleted when its order ends."""
        self.will.stop()
        try:
            self._ask("DELETE", self._path, query={"cancel": "true"})
        except Refused as refused:
            if refused.status != 404:
                raise

    @property
    def _path(self) -> str:
        return f"/virtual/v1/terminals/{self.id}"

    def _read_screen(self, **query: Any) -> Screen:
        return Screen(self._ask("GET", f"{self._path}/screen", query=query))

    def _step(self, action: str, *, at: str = "", times: int = 1, **fields: Any) -> Screen:
        if at:
            self.wait_for(at)
        act = self._take if action in SCREENS and not at else self._act
        return [act(action, fields) for _ in range(times)][-1]

    def _act(self, action: str, fields: dict[str, Any]) -> Screen:
        sent = {name: value for name, value in fields.items() if value is not None}
        return Screen(self._ask("POST", f"{self._path}/actions", {"action": action, **sent}))

    def _take(self, action: str, fields: dict[str, Any]) -> Screen:
        """Wait for a screen that takes the action, and act. Raises `NotShown`."""
        seconds_left, until = self._patience(None), SCREENS[action]
        while True:
            self._raise_failure()
            remaining = seconds_left()
            waiting = {"wait": POLL_SECONDS, "until": until} if until and remaining > 0 else {}
            current = self._read_screen(**waiting)
            taken = current.get("actions", ())
            if action in taken:
                try:
                    return self._act(action, fields)
                except Refused as refused:
                    # The screen has changed meanwhile.
                    if refused.code != "action_not_possible":
                        raise
            if remaining <= 0:
                takes = ", ".join(taken) or "nothing"
                raise NotShown(f"{action} was not possible at {self.id}: {describe(current)}, which takes {takes}.")
            if not until or current.name == until:
                time.sleep(POLL_INTERVAL_SECONDS)

    def _patience(self, seconds: float | None) -> Callable[[], float]:
        """Return a function for the seconds left."""
        end = time.monotonic() + (self._seconds if seconds is None else seconds)
        return lambda: end - time.monotonic()


class _Later(Terminal):
    """A terminal whose steps wait at most as long as the plan does."""

    def __init__(self, terminal: Terminal) -> None:
        self.__dict__.update(terminal.__dict__)
        self._raise_failure = lambda: None

    def _patience(self, seconds: float | None) -> Callable[[], float]:
        of_step = super()._patience(math.inf if seconds is None else seconds)
        return lambda: min(of_step(), self.will.seconds_left())


def describe(screen: Screen) -> str:
    """Return what a screen shows, in words."""
    order = f" about {screen.order_id}" if "order_id" in screen else ""
    return f"it shows {screen.name}{order} ({' / '.join(screen.lines)})"
