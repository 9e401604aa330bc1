"""Limits on concurrent deliveries, in total and per receiver, so that a slow receiver does not delay the others."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque

WIDTH_FIRST = 2
WIDTH_SHARE = 8
SLOW_SECONDS = 5.0
RECEIVERS_MAX = 10_000
AHEAD_PER_SLOT = 7
"""Deliveries to a fast receiver that are claimed ahead of each slot: a claim and a commit then do for many."""
AHEAD_SECONDS_MAX = 1.0
"""Maximum wait of a delivery that was claimed ahead for a slot; then its claim is released."""

Slot = asyncio.Future[None]


class Slots:
    """The delivery slots of one node.

    A receiver's width, its maximum of concurrent deliveries, starts at 2, grows by one with every fast success up to an
    eighth of all slots, and falls to one with a failure or a slow success. Receivers of that reduced width share half
    of all slots. An eighth of all slots is for receivers that use none, one each: busy ones never take every slot.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._width_max = max(1, total // WIDTH_SHARE)
        self._reserve = total // WIDTH_SHARE
        self._widths: dict[str, int] = {}
        """0: reduced to one slot."""
        self._used: Counter[str] = Counter()
        self._waiting: defaultdict[str, deque[Slot]] = defaultdict(deque)

    @property
    def used(self) -> int:
        """The number of slots in use."""
        return self._used.total()

    def claimable(self, receiver: str) -> int:
        """Return how many more deliveries to this receiver may be claimed: to start now, or ahead if it is fast."""
        free = self.free(receiver)
        if self._widths.get(receiver, 0) < self._width_max:
            return free
        return max(free + self._width_max * AHEAD_PER_SLOT - len(self._waiting.get(receiver, ())), 0)

    def free(self, receiver: str) -> int:
        """Return how many more deliveries to this receiver may start now."""
        width = self._width(receiver)
        used = self._used[receiver]
        unreserved = self._total - self._reserve - self.used
        free = min(max(width, 1) - used, self._total - self.used, max(unreserved, 0 if used else 1))
        if width == 0:
            used_by_reduced = sum(used for other, used in self._used.items() if self._width(other) == 0)
            free = min(free, max(1, self._total // 2) - used_by_reduced)
        return max(free, 0)

    def take(self, receiver: str) -> Slot:
        """Take a slot for this receiver, or a place in the queue for one. It is a future, done with the slot taken."""
        slot = asyncio.get_running_loop().create_future()
        if self.free(receiver) and not self._waiting.get(receiver):
            self._used[receiver] += 1
            slot.set_result(None)
        else:
            self._waiting[receiver].append(slot)
        return slot

    async def wait(self, receiver: str, slot: Slot) -> bool:
        """Wait until the slot is taken; return False, and leave the queue, if it is not in time."""
        try:
            async with asyncio.timeout(AHEAD_SECONDS_MAX):
                await asyncio.shield(slot)
        except TimeoutError:
            self._give_up(receiver, slot)
            return False
        except asyncio.CancelledError:
            self._give_up(receiver, slot)
            raise
        return True

    def _give_up(self, receiver: str, slot: Slot) -> None:
        if slot.done():
            self._free_one(receiver)
            self._start_waiting()
        else:
            slot.cancel()
            self._waiting[receiver].remove(slot)

    def release(self, receiver: str, *, delivered: bool, seconds: float) -> None:
        """Release a slot and adjust the receiver's width to the outcome."""
        self._free_one(receiver)
        if len(self._widths) >= RECEIVERS_MAX:
            self._widths.clear()
        fast = delivered and seconds < SLOW_SECONDS
        self._widths[receiver] = min(self._width(receiver) + 1, self._width_max) if fast else 0
        self._start_waiting()

    def _free_one(self, receiver: str) -> None:
        self._used[receiver] -= 1
        if not self._used[receiver]:
            del self._used[receiver]

    def _start_waiting(self) -> None:
        """Give free slots to the deliveries that wait for one, which take them in the order of their claims."""
        for receiver, waiters in list(self._waiting.items()):
            while waiters and self.free(receiver):
                self._used[receiver] += 1
                waiters.popleft().set_result(None)
            if not waiters:
                del self._waiting[receiver]

    def _width(self, receiver: str) -> int:
        return self._widths.get(receiver, min(WIDTH_FIRST, self._width_max))
