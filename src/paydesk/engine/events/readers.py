"""Notifications between nodes about feeds that clients wait on: only feeds with a waiting client are published.

The state is in memory only. A reader that misses a notification finds the event with its next poll of the database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from paydesk.core import runtime
from paydesk.core.errors import TOO_MANY_REQUESTS
from paydesk.core.signals import Signals
from paydesk.engine.events.store import Feed

FEEDS_MAX = 10_000
WAITING_PER_TOKEN_MAX = 16
WAITING_RETRY_SECONDS = "5"
INTEREST_SECONDS = 60.0
"""Validity of a reader's announcement. A reader announces itself again after at most 55 s."""


def topics(feed: Feed) -> tuple[str, str]:
    """Return the topics of the feed: an event was committed on this node, or on another."""
    name = ".".join(map(str, feed.key))
    return f"events:{name}", f"remote-events:{name}"


class Readers:
    """The feeds that clients read on other nodes, and the number of waiting requests of each token here."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._until: dict[str, float] = {}
        self._waiting: Counter[bytes] = Counter()
        signals.listen("reads:", self._remote_read)
        signals.listen("events:", self._local_event)

    @property
    def requests_waiting(self) -> int:
        """Return how many requests wait for an event on this node."""
        return self._waiting.total()

    @contextmanager
    def waiting(self, token_digest: bytes) -> Iterator[None]:
        """Count a waiting request of the token. Raises `too_many_requests` if the maximum is reached."""
        if self._waiting[token_digest] >= WAITING_PER_TOKEN_MAX:
            raise TOO_MANY_REQUESTS.with_reason(
                f"{WAITING_PER_TOKEN_MAX} requests of the token wait",
                message=f"{WAITING_PER_TOKEN_MAX} requests with this access token are already waiting for events. Send"
                " the next request after one of them is answered.",
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
        """Publish to the other nodes that a client reads the feed here."""
        self._signals.publish((f"reads:{'.'.join(map(str, feed.key))}",))

    def _remote_read(self, topic: str) -> None:
        name = topic.removeprefix("reads:")
        if self._until.pop(name, None) is None and len(self._until) >= FEEDS_MAX:
            del self._until[next(iter(self._until))]
        self._until[name] = runtime.monotonic() + INTEREST_SECONDS

    def _local_event(self, topic: str) -> None:
        if not self._until:
            return
        name = topic.removeprefix("events:")
        until = self._until.get(name)
        if until is None:
            return
        if until > runtime.monotonic():
            self._signals.publish((f"remote-events:{name}",))
        else:
            del self._until[name]
