"""The machine's clocks, in one place: a test that moves time replaces `source`, and every reader follows.

The event loop's own time (`asyncio.sleep`, `wait_for`, `call_later`) is the loop's. Instants that are stored come from
`core.clock.Clock`, which is handed in.
"""

from __future__ import annotations

import time
from typing import Protocol


class Source(Protocol):
    """The clocks that the functions of this module read."""

    def monotonic_ns(self) -> int:
        """Return the nanoseconds since an arbitrary start; they never go back."""

    def boot_ns(self) -> int:
        """Return the nanoseconds since the machine's start, with the time that it was suspended."""

    def wall_ns(self) -> int:
        """Return the nanoseconds since 1970 in UTC, by the machine's clock, which may be set."""


class Machine:
    """The clocks of the operating system."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)

    @staticmethod
    def boot_ns() -> int:
        """Read the clock that goes on while the machine is suspended, where there is one."""
        return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


source: Source = Machine()


def monotonic() -> float:
    """Return seconds since an arbitrary start; they never go back."""
    return source.monotonic_ns() / 1_000_000_000


def monotonic_ns() -> int:
    """Return nanoseconds since an arbitrary start; they never go back."""
    return source.monotonic_ns()


def boot_ns() -> int:
    """Return nanoseconds since the machine's start, with the time that it was suspended."""
    return source.boot_ns()


def wall_ns() -> int:
    """Return nanoseconds since 1970 in UTC, by the machine's clock."""
    return source.wall_ns()
