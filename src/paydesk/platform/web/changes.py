"""A count of changes, of which coroutines wait for the next one."""

from __future__ import annotations

import asyncio


class Changes:
    """A source of changes: `revision` counts them, from 1."""

    def __init__(self) -> None:
        self.revision = 1
        self._next: asyncio.Future[None] | None = None
        """Made by the first that waits: usually nothing does."""

    def notify(self) -> None:
        """Count a change, and wake all that wait."""
        self.revision += 1
        self.wake()

    def wake(self) -> None:
        """Wake all that wait."""
        woken, self._next = self._next, None
        if woken is not None:
            woken.set_result(None)

    async def changed(self, revision: int, seconds: float) -> bool:
        """Wait until `revision` is past, or all are woken; return False if nothing happens for `seconds`."""
        if self.revision != revision:
            return True
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait((self._next,), timeout=seconds)
        return bool(done)
