"""One line in the log for many requests that were throttled: who floods must not fill the disk, too."""

from __future__ import annotations

import asyncio

import structlog

PAUSE_SECONDS = 10.0

log = structlog.get_logger("throttle")


class ThrottleLog:
    """Says at once that something is throttled, and how often more, at most once in `PAUSE_SECONDS` for each kind."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def note(self, what: str, /, **facts: str) -> None:
        """Count one more for the limit `what`, an identifier; the line logged at once has the facts of the first."""
        if what in self._counts:
            self._counts[what] += 1
            return
        log.warning("throttled", what=what, count=1, **facts)
        self._begin_to_count(what)

    def _begin_to_count(self, what: str) -> None:
        self._counts[what] = 0
        asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._tell, what)

    def _tell(self, what: str) -> None:
        count = self._counts.pop(what)
        if count:
            log.warning("throttled", what=what, count=count, within_seconds=PAUSE_SECONDS)
            self._begin_to_count(what)
