"""One log line for many throttled requests, so that a flood does not fill the disk."""

from __future__ import annotations

import asyncio

import structlog

INTERVAL_SECONDS = 10.0

log = structlog.get_logger("throttle")


class ThrottleLog:
    """Logs the first event of each limit at once, then the number of further ones once in `INTERVAL_SECONDS`."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    @property
    def counted(self) -> tuple[str, ...]:
        """Return the limits whose events are counted at this moment, not logged one by one."""
        return tuple(self._counts)

    def note(self, what: str, /, **facts: str) -> None:
        """Count an event of the limit `what`, an identifier; the facts of the first event are logged."""
        if what in self._counts:
            self._counts[what] += 1
            return
        log.warning("throttled", what=what, count=1, **facts)
        self._start_counting(what)

    def _start_counting(self, what: str) -> None:
        self._counts[what] = 0
        asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self._log_count, what)

    def _log_count(self, what: str) -> None:
        count = self._counts.pop(what)
        if count:
            log.warning("throttled", what=what, count=count, within_seconds=INTERVAL_SECONDS)
            self._start_counting(what)
