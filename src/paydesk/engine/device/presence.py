"""Signs of life of the terminals that poll this node: one statement writes all of them every 15 s.

A poll itself writes nothing. A terminal that was silent is written at once, together with all others that are due, at
most once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from paydesk.core import runtime
from paydesk.core.signals import Signals
from paydesk.engine.terminals import presence
from paydesk.engine.terminals.presence import DEGRADED_SECONDS, ONLINE_SECONDS
from paydesk.platform.storage.database import Database

WRITE_SECONDS = 15.0
"""Between two writes of one terminal, and between the writes of all."""
RETURNED = "returned"
"""The signal that a terminal that was silent polls again, on this node only."""


class Sighting:
    """The polls of one terminal on this node, in seconds of the monotonic clock."""

    __slots__ = ("ended", "open_polls", "seller_id", "written")

    def __init__(self, seller_id: int) -> None:
        self.seller_id, self.open_polls = seller_id, 0
        self.ended: float | None = None
        """When the last poll ended, until that is written."""
        self.written: float | None = None

    @property
    def has_news(self) -> bool:
        """Return whether there is something to write."""
        return self.open_polls > 0 or self.ended is not None

    def is_due(self, now: float) -> bool:
        """Return whether the last write was at least `WRITE_SECONDS` ago."""
        return self.written is None or now - self.written >= WRITE_SECONDS

    def age(self, now: float) -> float:
        """Return the seconds since the last sign of life: none while a poll is open."""
        return 0.0 if self.open_polls or self.ended is None else now - self.ended

    def is_over(self, now: float) -> bool:
        """Return whether the terminal is silent, and all of it is written or can't be: the terminal may be deleted."""
        if self.open_polls:
            return False
        return self.was_silent(now) if self.ended is None else now - self.ended > DEGRADED_SECONDS

    def was_silent(self, now: float) -> bool:
        """Return whether, as far as this node knows, the terminal is not shown as online."""
        return self.written is None or now - self.written > ONLINE_SECONDS


class Sightings:
    """The terminals that poll this node or did so in the last two minutes; no more than there are terminals."""

    def __init__(self, signals: Signals | None = None, monotonic: Callable[[], float] = runtime.monotonic) -> None:
        self._signals, self._monotonic = signals, monotonic
        self._seen: dict[str, Sighting] = {}
        self.is_urgent = False
        """Whether a terminal that was silent is to be written at once."""
        self._writing = asyncio.Lock()

    def polls_open(self, terminal_id: str) -> int:
        """Return how many polls of the terminal wait on this node."""
        seen = self._seen.get(terminal_id)
        return seen.open_polls if seen is not None else 0

    def began(self, seller_id: int, terminal_id: str, now: float) -> Sighting:
        """Record that a poll began, and return what `ended` takes."""
        seen = self._seen.get(terminal_id)
        if seen is None or seen.seller_id != seller_id:
            seen = self._seen[terminal_id] = Sighting(seller_id)
        seen.open_polls += 1
        if not self.is_urgent and seen.was_silent(now):
            self.is_urgent = True
            if self._signals is not None:
                self._signals.notify_local((RETURNED,))
        return seen

    def ended(self, seen: Sighting) -> None:
        """Record that a poll ended."""
        seen.open_polls -= 1
        seen.ended = self._monotonic()

    async def clock_moved(self, database: Database) -> None:
        """Write that terminals whose polls are open are seen now, after the clock of development was moved.

        Any other is written at once when it polls again: by the new time it may have been silent.
        """
        for terminal_id, seen in list(self._seen.items()):
            seen.written = None
            if not seen.has_news:
                del self._seen[terminal_id]
        await self.write(database)

    async def forget(self, database: Database, seller_id: int, terminal_id: str) -> None:
        """Let a terminal of development be offline at once, until it polls again."""
        async with self._writing:
            await database.write(partial(presence.record_offline, seller_id=seller_id, terminal_id=terminal_id))
            self._seen.pop(terminal_id, None)

    async def write(self, database: Database, *, is_last: bool = False) -> int:
        """Write what is due, or at the last time everything, in one statement; return how many terminals.

        A terminal whose row is locked is written the next time; at once if it was silent and is polling. One without a
        row was deleted, and its polls have ended.
        """
        async with self._writing:
            now, self.is_urgent = self._monotonic(), False
            due = {
                terminal_id: seen
                for terminal_id, seen in self._seen.items()
                if seen.has_news and (is_last or seen.is_due(now))
            }
            ages_ms = {terminal_id: (seen.seller_id, int(seen.age(now) * 1000)) for terminal_id, seen in due.items()}
            written = await database.write(partial(presence.record, ages_ms=ages_ms)) if due else ()
        for terminal_id, seen in due.items():
            if terminal_id not in written:
                self.is_urgent = self.is_urgent or (seen.open_polls > 0 and seen.was_silent(now))
                continue
            seen.written = now
            if seen.ended is not None and seen.ended <= now:
                seen.ended = None
        for terminal_id in [terminal_id for terminal_id, seen in self._seen.items() if seen.is_over(now)]:
            del self._seen[terminal_id]
        return len(due)
