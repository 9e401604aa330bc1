"""The orders that a reset of `paydesk dev` removed while work on them was under way.

Such work no longer has a row. Without this memory a request to the simulated acquirer, or a notification that
is being sent, would leave something behind about an order that no longer exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from paydesk.platform.storage.database import Unavailable

REMEMBERED_MAX = 10_000
"""More orders can't have unfinished work at once on a machine for development."""


class OrderRemoved(Unavailable):
    """A reset has removed the order while the request was under way."""


class Removals:
    """The lock that lets one removal run at a time, and the orders with unfinished work that were removed last.

    Also the requests to the simulated acquirer that are held: their orders may have ended.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._removed: dict[str, None] = {}
        self._held = set[asyncio.Task[object]]()

    def add_held(self, arriving: asyncio.Task[object]) -> None:
        """Add a request that a fault holds before it arrives."""
        self._held.add(arriving)
        arriving.add_done_callback(self._held.discard)

    async def end_held(self) -> None:
        """End the requests that are held: they never arrive."""
        held = tuple(self._held)
        for arriving in held:
            arriving.cancel()
        await asyncio.gather(*held, return_exceptions=True)

    def remember(self, order_ids: Iterable[str]) -> None:
        """Remember removed orders, at most `REMEMBERED_MAX`."""
        self._removed.update(dict.fromkeys(order_ids))
        for order_id in list(self._removed)[:-REMEMBERED_MAX]:
            del self._removed[order_id]

    def has_removed(self, order_id: str) -> bool:
        """Return whether the order was removed. Ask after the transaction has written: removals lock all tables."""
        return order_id in self._removed

    def refuse(self, order_id: str) -> None:
        """Undo what a transaction has written about an order that a reset has removed. Raises `OrderRemoved`."""
        if self.has_removed(order_id):
            raise OrderRemoved("a reset has removed the order")
