"""Who waits for events on other nodes: they are told at once of what happens here, and nobody else is told anything.

Hints alone, kept in memory: a reader that was not told looks again by itself, a little later.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paydesk.core.errors import TOO_MANY_REQUESTS
from paydesk.core.signals import Signals
from paydesk.events.store import Feed

FEEDS_MAX = 10_000
WAITING_PER_TOKEN_MAX = 16
WAITING_RETRY_SECONDS = "5"
INTEREST_SECONDS = 60.0
"""A reader asks anew at the latest after 55 s."""


def topics(feed: Feed) -> tuple[str, str]:
    """What wakes its readers: an event that was committed on this node, or on another."""
    name = ".".join(map(str, feed.key))
    return f"events:{name}", f"remote-events:{name}"


class Readers:
    """The feeds that somebody reads on another node."""

    def __init__(self, signals: Signals, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._signals, self._monotonic = signals, monotonic
        self._until: dict[str, float] = {}
        self._waiting: Counter[bytes] = Counter()
        signals.listen("reads:", self._read_elsewhere)
        signals.listen("events:", self._happened)

    @contextmanager
    def waiting(self, token_digest: bytes) -> Iterator[None]:
        """Count a request of this token that waits. Raises `too_many_requests` where as many wait as may."""
        if self._waiting[token_digest] >= WAITING_PER_TOKEN_MAX:
            raise TOO_MANY_REQUESTS.with_reason(
                f"{WAITING_PER_TOKEN_MAX} of the token wait",
                message=f"{WAITING_PER_TOKEN_MAX} requests of this access token wait for events already. Send one after"
                " another has been answered.",
                headers=(("retry-after", WAITING_RETRY_SECONDS),),
            )
        self._waiting[token_digest] += 1
        try:
            yield
        finally:
            self._waiting[token_digest] -= 1
            if not self._waiting[token_digest]:
                del self._waiting[token_digest]

    def announce(self, feed: Feed) -> None:
        """Somebody reads it on this node."""
        self._signals.publish((f"reads:{'.'.join(map(str, feed.key))}",))

    def _read_elsewhere(self, topic: str) -> None:
        name = topic.removeprefix("reads:")
        if self._until.pop(name, None) is None and len(self._until) >= FEEDS_MAX:
            del self._until[next(iter(self._until))]
        self._until[name] = self._monotonic() + INTEREST_SECONDS

    def _happened(self, topic: str) -> None:
        if not self._until:
            return
        name = topic.removeprefix("events:")
        until = self._until.get(name)
        if until is None:
            return
        if until > self._monotonic():
            self._signals.publish((f"remote-events:{name}",))
        else:
            del self._until[name]
