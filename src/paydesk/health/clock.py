"""The machine's clock, held against the one that nobody can set: a node whose clock jumped judges nothing by it."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from paydesk.storage.database import Unavailable

JUMP_SECONDS_MAX = 300

log = structlog.get_logger("clock")


class ClockJumped(Unavailable):
    """The wall clock can't be trusted. Nothing was done: no expiry, no refusal, no purge."""

    sentence = "This node's clock can't be trusted; nothing was done."


def _steady_ns() -> int:
    """Nanoseconds that pass also while the machine sleeps, and that no setting of its clock changes."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class WatchedClock:
    """The clock of `paydesk serve`. It is trusted again once it is back, and by every process that starts anew."""

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = _steady_ns) -> None:
        self._wall_ns, self._steady_ns = wall_ns, steady_ns
        self._apart_ns = wall_ns() - steady_ns()
        self._jumped = False

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC. Raises `ClockJumped` while they are 5 minutes from where they should be."""
        now_ns = self._wall_ns()
        seconds = (now_ns - self._steady_ns() - self._apart_ns) / 1e9
        jumped = abs(seconds) > JUMP_SECONDS_MAX
        if jumped != self._jumped:
            self._jumped = jumped
            log.error("the wall clock jumped" if jumped else "the wall clock is back", seconds=round(seconds))
        if jumped:
            raise ClockJumped(f"the wall clock jumped by {seconds:.0f} s since this process started")
        return now_ns // 1_000_000
