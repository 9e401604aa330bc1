"""One log line for many throttled requests, so that a flood does not fill the disk."""

from __future__ import annotations

import structlog

from paydesk.core.limits.repetitions import Repetitions
from paydesk.core.metrics import Counter

INTERVAL_SECONDS = 10.0

log = structlog.get_logger("throttle")

THROTTLED = Counter("paydesk_throttled_total", "Requests and connections that a limit refused.", "limit")


class ThrottleLog:
    """Logs the first event of each limit at once, then the number of further ones once in `INTERVAL_SECONDS`."""

    def __init__(self) -> None:
        self._events: Repetitions[str] = Repetitions(INTERVAL_SECONDS, _log_count)

    @property
    def counted(self) -> tuple[str, ...]:
        """Return the limits whose events are counted at this moment, not logged one by one."""
        return tuple(self._events.counted)

    def note(self, what: str, /, **facts: str) -> None:
        """Count an event of the limit `what`, an identifier; the facts of the first event are logged."""
        THROTTLED.add(what)
        if self._events.is_first(what):
            log.warning("throttled", what=what, count=1, **facts)


def _log_count(what: str, count: int) -> None:
    log.warning("throttled", what=what, count=count, within_seconds=INTERVAL_SECONDS)
