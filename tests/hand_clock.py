"""A monotonic clock that a test moves by hand: for rates, which never use the clock of stored instants."""

from __future__ import annotations

from paydesk.core.limits.rates import SECOND_NS


class HandClock:
    """Monotonic nanoseconds that a test moves."""

    def __init__(self) -> None:
        self.now = 7 * SECOND_NS

    def __call__(self) -> int:
        """The time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.now += round(seconds * SECOND_NS)
