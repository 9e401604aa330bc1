"""Time that a test moves forward: the event loop's and `runtime.monotonic`'s, so that no test waits for a timer.

Importing this replaces the clocks of `runtime`: `conftest.py` does it before all other modules of Paydesk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from paydesk.core import runtime

_ahead_ns = 0
"""What tests have moved time by in this process. It never goes back."""

when_moved: list[Callable[[], None]] = []
"""What is called after each move, for loops that don't look at the time by themselves."""


def advance(seconds: float) -> None:
    """Move time forward: every timer due by then (`sleep`, `wait_for`, `call_later`) fires in the next turn."""
    global _ahead_ns  # noqa: PLW0603 - there is one time in a process
    _ahead_ns += round(seconds * 1_000_000_000)
    for call in tuple(when_moved):
        call()


def moved_seconds() -> float:
    """Return what tests have moved time by so far."""
    return _ahead_ns / 1_000_000_000


def _monotonic_ns() -> int:
    return time.monotonic_ns() + _ahead_ns


def _monotonic() -> float:
    return _monotonic_ns() / 1_000_000_000


class MovableLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, by the moved time."""

    def time(self) -> float:
        """Return the time by which timers fire."""
        return _monotonic()


runtime.monotonic, runtime.monotonic_ns = _monotonic, _monotonic_ns
