"""A cache with a time to live and a bounded number of entries.

Misses are never cached: a row that was just created must be found by the next lookup.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """At most `entries_max` values, each for `seconds` after it was put. `seconds = 0` keeps nothing."""

    def __init__(self, seconds: float, entries_max: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._entries_max, self._monotonic = seconds, entries_max, monotonic
        self._entries: dict[K, tuple[float, V]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value, or None if it is missing or expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= self._monotonic():
            del self._entries[key]
            return None
        return entry[1]

    def put(self, key: K, value: V) -> None:
        """Store `value`; a full cache drops the entry that was put first."""
        if self._seconds <= 0:
            return
        self._entries.pop(key, None)
        if len(self._entries) >= self._entries_max:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = (self._monotonic() + self._seconds, value)

    def drop(self, key: K) -> None:
        """Remove an entry if it exists."""
        self._entries.pop(key, None)

    def drop_where(self, matches: Callable[[V], bool]) -> None:
        """Remove every entry whose value matches."""
        for key in [key for key, (_, value) in self._entries.items() if matches(value)]:
            del self._entries[key]

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
