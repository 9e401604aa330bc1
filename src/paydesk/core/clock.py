"""The clock for stored instants (expiry, lifetimes, retries), which is passed in.

Timeouts, re-offers, rates and caches use the event loop's monotonic time instead, presence the database's clock.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

from paydesk.core import runtime


class Clock(Protocol):
    """A source of the time for everything that is stored."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC."""
        return runtime.wall_ns() // 1_000_000


class MovableClock:
    """The clock of `paydesk dev`: the machine's, shifted forward or frozen. Only a reset moves it back."""

    def __init__(self, offset_ms: int = 0, frozen_ms: int | None = None) -> None:
        self.offset_ms = offset_ms
        self.frozen_ms = frozen_ms
        self.moving = asyncio.Lock()
        """Locks a change of the clock together with its row, so that both get the same value."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC, shifted or frozen."""
        return self.frozen_ms if self.frozen_ms is not None else runtime.wall_ns() // 1_000_000 + self.offset_ms

    def freeze(self) -> None:
        """Stop at the current time."""
        self.frozen_ms = self.now_ms()

    def advance(self, by_ms: int) -> None:
        """Move forward by `by_ms` milliseconds, frozen or not."""
        assert by_ms >= 0, "the clock never goes back"
        if self.frozen_ms is None:
            self.offset_ms += by_ms
        else:
            self.frozen_ms += by_ms

    def resume(self) -> None:
        """Run again: from the frozen time, or from the machine's time plus the earlier shift if that is later."""
        if self.frozen_ms is not None:
            self.offset_ms = max(self.offset_ms, self.frozen_ms - runtime.wall_ns() // 1_000_000)
            self.frozen_ms = None


@lru_cache(256)
def rfc3339(instant_ms: int) -> str:
    """Format an instant as `2026-01-31T14:26:42.109Z`, the format of every time on the wire."""
    seconds, milliseconds = divmod(instant_ms, 1000)
    return f"{_to_the_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(1024)
def _to_the_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
