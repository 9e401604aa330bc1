"""Events that may come without end: the first of a key is logged by itself, the others as a number, at intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Repetitions(Generic[K]):
    """Counts the events of each key after its first one, and reports their number once in `seconds`.

    A key without an event in an interval is forgotten. `counted` has the others; the caller bounds their number.
    """

    def __init__(self, seconds: float, report: Callable[[K, int], None]) -> None:
        self._seconds, self._report = seconds, report
        self.counted: dict[K, int] = {}

    def is_first(self, key: K) -> bool:
        """Return whether this is the first event of the key, which its caller logs; count any other one."""
        if key in self.counted:
            self.counted[key] += 1
            return False
        self.counted[key] = 0
        asyncio.get_running_loop().call_later(self._seconds, self._end, key)
        return True

    def _end(self, key: K) -> None:
        count = self.counted.pop(key)
        if count:
            self._report(key, count)
            self.is_first(key)
