"""A small cache: entries live for a while of monotonic time, and there is never more than a bounded number of them.

What was not found is never put here: a row made a moment ago must be seen by the next who asks.
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
        """The value, or None where it was never put, has been dropped or is too old."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= self._monotonic():
            del self._entries[key]
            return None
        return entry[1]

    def put(self, key: K, value: V) -> None:
        """Remember `value`; where the cache is full the entry that was put first makes room."""
        if self._seconds <= 0:
            return
        self._entries.pop(key, None)
        if len(self._entries) >= self._entries_max:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = (self._monotonic() + self._seconds, value)

    def drop(self, key: K) -> None:
        """Forget one entry, there or not."""
        self._entries.pop(key, None)

    def drop_where(self, doomed: Callable[[V], bool]) -> None:
        """Forget every entry whose value is `doomed`."""
        for key in [key for key, (_, value) in self._entries.items() if doomed(value)]:
            del self._entries[key]

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
