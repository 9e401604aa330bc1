"""Limits on concurrent deliveries, in total and per receiver, so that a slow receiver does not delay the others."""

from __future__ import annotations

from collections import Counter

WIDTH_FIRST = 2
WIDTH_SHARE = 8
SLOW_SECONDS = 5.0
RECEIVERS_MAX = 10_000


class Slots:
    """The delivery slots of one node.

    A receiver's width, its maximum of concurrent deliveries, starts at 2, grows by one with every fast success up to an
    eighth of all slots, and falls to one with a failure or a slow success. Receivers of that reduced width share half
    of all slots.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._width_max = max(1, total // WIDTH_SHARE)
        self._widths: dict[str, int] = {}
        """0: reduced to one slot."""
        self._used: Counter[str] = Counter()

    @property
    def used(self) -> int:
        """The number of slots in use."""
        return self._used.total()

    def free(self, receiver: str) -> int:
        """Return how many more deliveries to this receiver may start now."""
        width = self._width(receiver)
        free = min(max(width, 1) - self._used[receiver], self._total - self.used)
        if width == 0:
            free = min(free, max(1, self._total // 2) - self._used_by_reduced())
        return max(free, 0)

    def take(self, receiver: str) -> None:
        """Take a slot for this receiver."""
        self._used[receiver] += 1

    def release(self, receiver: str, *, delivered: bool, seconds: float) -> None:
        """Release a slot and adjust the receiver's width to the outcome."""
        self._used[receiver] -= 1
        if not self._used[receiver]:
            del self._used[receiver]
        if len(self._widths) >= RECEIVERS_MAX:
            self._widths.clear()
        fast = delivered and seconds < SLOW_SECONDS
        self._widths[receiver] = min(self._width(receiver) + 1, self._width_max) if fast else 0

    def _width(self, receiver: str) -> int:
        return self._widths.get(receiver, min(WIDTH_FIRST, self._width_max))

    def _used_by_reduced(self) -> int:
        return sum(used for receiver, used in self._used.items() if self._width(receiver) == 0)
