"""The machine's clocks, in one place: no other module reads them, so that tests can move time.

Tests replace these functions before they import the modules that use them. The event loop's time (`asyncio.sleep`,
`wait_for`, `call_later`) is the loop's own. Instants that are stored come from a `core.clock.Clock`.
"""

from __future__ import annotations

import time

monotonic = time.monotonic
"""Seconds since an arbitrary start; they never go back."""
monotonic_ns = time.monotonic_ns
"""The steady clock in nanoseconds."""
wall_ns = time.time_ns
"""Nanoseconds since 1970 in UTC, by the machine's clock, which may be set."""


def boot_ns() -> int:
    """Return nanoseconds since the machine's start; unlike those of `monotonic_ns` they pass while it is suspended."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
