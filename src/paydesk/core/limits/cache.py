"""A bounded cache of look-ups. Entries expire by monotonic time and are dropped when a signal reports a change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from paydesk.core import runtime
from paydesk.core.signals import EVERYTHING, Signals

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LookupCache(Generic[K, V]):
    """A cache of at most `entries_max` values, each for `seconds` after it was stored; `seconds = 0` stores nothing.

    A failed look-up raises and is never stored: a row inserted a moment later is found by the next request. A value
    that was read while a change was reported is returned but not stored, since it may be older than the change.
    """

    def __init__(
        self, seconds: float, entries_max: int, signals: Signals, monotonic: Callable[[], float] = runtime.monotonic
    ) -> None:
        self._seconds, self._entries_max, self._signals, self._monotonic = seconds, entries_max, signals, monotonic
        self._entries: dict[K, tuple[float, V]] = {}
        self._changes = 0
        self.clear_on(EVERYTHING)

    def __len__(self) -> int:
        return len(self._entries)

    def clear_on(self, *topics: str) -> None:
        """Drop every entry when one of the topics is notified."""
        for topic in topics:
            self._signals.listen(topic, self._clear)

    def drop_on(self, prefix: str, is_affected: Callable[[str, V], bool]) -> None:
        """Drop the entries for which `is_affected(topic, value)` when a topic with this prefix is notified."""

        def drop(topic: str) -> None:
            self._changes += 1
            for key in [key for key, (_, value) in self._entries.items() if is_affected(topic, value)]:
                del self._entries[key]

        self._signals.listen(prefix, drop)

    def get(self, key: K) -> V | None:
        """Return the value, or None if it is not stored or has expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= self._monotonic():
            del self._entries[key]
            return None
        return entry[1]

    @property
    def changes(self) -> int:
        """The number of changes reported so far."""
        return self._changes

    async def fetch(self, key: K, look_up: Awaitable[V]) -> V:
        """Await `look_up`, store its result and return it."""
        changes = self._changes
        value = await look_up
        self.store(key, value, changes=changes)
        return value

    def store(self, key: K, value: V, *, changes: int) -> None:
        """Store the value unless a change was reported since `changes`. A full cache drops its oldest entry."""
        if changes == self._changes and self._seconds > 0:
            self._entries.pop(key, None)
            if len(self._entries) >= self._entries_max:
                del self._entries[next(iter(self._entries))]
            self._entries[key] = (self._monotonic() + self._seconds, value)

    def _clear(self, _topic: str) -> None:
        self._changes += 1
        self._entries.clear()
