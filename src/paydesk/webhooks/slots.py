"""How many notifications may be under way at once, all in all and to each receiver: a slow one never delays another."""

from __future__ import annotations

from collections import Counter

WIDTH_FIRST = 2
WIDTH_SHARE = 8
SLOW_SECONDS = 5.0
RECEIVERS_MAX = 10_000


class Slots:
    """The slots of one node. A receiver's share widens with every quick success and closes to one with a failure.

    Receivers that fail or are slow have one each and share half of all: however many hang, the others go on.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._width_max = max(1, total // WIDTH_SHARE)
        self._widths: dict[str, int] = {}
        self._used: Counter[str] = Counter()

    @property
    def used(self) -> int:
        """How many are taken."""
        return self._used.total()

    def free(self, receiver: str) -> int:
        """How many more may be under way to this receiver now."""
        width = self._width(receiver)
        free = min(width - self._used[receiver], self._total - self._used.total())
        if self._narrow(receiver):
            free = min(free, max(1, self._total // 2) - self._narrow_used())
        return max(free, 0)

    def take(self, receiver: str) -> None:
        """One more is under way to this receiver."""
        self._used[receiver] += 1

    def give_back(self, receiver: str, *, delivered: bool, seconds: float) -> None:
        """One is over, and how it went decides how many may go at once from now on."""
        self._used[receiver] -= 1
        if not self._used[receiver]:
            del self._used[receiver]
        if len(self._widths) >= RECEIVERS_MAX:
            self._widths.clear()
        quick = delivered and seconds < SLOW_SECONDS
        self._widths[receiver] = min(self._stored(receiver) + 1, self._width_max) if quick else 0

    def _stored(self, receiver: str) -> int:
        return self._widths.get(receiver, min(WIDTH_FIRST, self._width_max))

    def _width(self, receiver: str) -> int:
        return max(self._stored(receiver), 1)

    def _narrow(self, receiver: str) -> bool:
        return self._stored(receiver) == 0

    def _narrow_used(self) -> int:
        return sum(used for receiver, used in self._used.items() if self._narrow(receiver))
