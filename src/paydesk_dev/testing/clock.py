"""The clock of the test's own service."""

from __future__ import annotations

import math
import time
from datetime import datetime

from paydesk_dev.testing.documents import Order
from paydesk_dev.testing.errors import NotReached
from paydesk_dev.testing.expected import known_state
from paydesk_dev.testing.paydesk import Paydesk

POLL_INTERVAL_SECONDS = 0.05
SETTLE_SECONDS = 1.0
"""The time that the workers get after each move."""


class Clock:
    """Moves on by hand, never back: later tests of the same service begin at the moved time."""

    def __init__(self, paydesk: Paydesk) -> None:
        self._paydesk, self._service = paydesk, paydesk.service

    def now(self) -> datetime:
        """Return the time of the service."""
        return datetime.fromisoformat(self._service.ask("GET", "/dev/clock")["now"])

    def advance(self, by: float | str) -> datetime:
        """Advance it by seconds, or by `15m`, `3h` or `181d`, and return its time."""
        text = by if isinstance(by, str) else f"{math.ceil(by)}s"
        return datetime.fromisoformat(self._service.ask("POST", "/dev/clock", {"advance": text})["now"])

    def advance_to_next(self) -> str:
        """Advance it to the next expiry, deadline or attempt; return its kind, empty if nothing is due."""
        due = self._service.ask("POST", "/dev/clock", {"to_next": True}).get("next")
        return str(due["kind"]) if due else ""

    def until(self, detail: str, order: Order | str) -> Order:
        """Advance it to what is due, again and again, until this is the order's status or detail.

        Raises `NotReached` if nothing more is due, or after the time of a wait.
        """
        known_state(detail)
        end = time.monotonic() + self._paydesk.seconds
        while True:
            kind, settled = self.advance_to_next(), time.monotonic() + SETTLE_SECONDS
            while True:
                self._paydesk.raise_failure()
                current = self._paydesk.order(order)
                if detail in (current.status, current.detail):
                    return current
                if time.monotonic() > settled:
                    break
                time.sleep(POLL_INTERVAL_SECONDS)
            if not kind or time.monotonic() > end:
                raise NotReached(f"{current.id} does not reach {detail}: it is {current.status} ({current.detail}).")
