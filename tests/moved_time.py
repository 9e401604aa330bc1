"""Time that a test moves forward: the event loop's and `runtime.monotonic`'s, so that no test waits for a timer."""

from __future__ import annotations

import asyncio

from paydesk.core import runtime


class MovedTime(runtime.Machine):
    """The machine's clocks, of which the monotonic one is ahead by what tests have moved it. It never goes back."""

    ahead_ns = 0

    def monotonic_ns(self) -> int:
        """Return the machine's time and what it was moved by."""
        return runtime.Machine.monotonic_ns() + self.ahead_ns


MOVED = MovedTime()


class MovableLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, by the time of `runtime`."""

    def time(self) -> float:
        """Return the time by which timers fire."""
        return runtime.monotonic()


def advance(seconds: float) -> None:
    """Move time forward: every timer due by then (`sleep`, `wait_for`, `call_later`) fires in the next turn."""
    MOVED.ahead_ns += round(seconds * 1_000_000_000)
