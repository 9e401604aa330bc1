"""The network connection of a virtual terminal, which a person can cut, and restore."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType


class Link:
    """A connection, up at first."""

    def __init__(self) -> None:
        self._restored = asyncio.Event()
        self._restored.set()
        self._carried = set[asyncio.Timeout]()
        self._restoring: asyncio.TimerHandle | None = None
        self._is_acknowledgement_lost = False

    @property
    def is_up(self) -> bool:
        """Whether messages pass."""
        return self._restored.is_set()

    def cut(self, seconds: float | None = None) -> None:
        """Lose the messages under way and all later ones, until `restore` or for so many seconds."""
        self._cancel_timer()
        self._restored.clear()
        loop = asyncio.get_running_loop()
        for scope in self._carried:
            scope.reschedule(loop.time())
        if seconds is not None:
            self._restoring = loop.call_later(seconds, self.restore)

    def restore(self) -> None:
        """Let messages pass."""
        self._cancel_timer()
        self._restored.set()

    def lose_acknowledgement(self) -> None:
        """Lose the answer to the next acknowledgement."""
        self._is_acknowledgement_lost = True

    def takes_acknowledgement(self) -> bool:
        """Return whether to lose this answer to an acknowledgement; the next one arrives."""
        is_lost, self._is_acknowledgement_lost = self._is_acknowledgement_lost, False
        return is_lost

    def close(self) -> None:
        """Cancel the timer that would restore it."""
        self._cancel_timer()

    def carrying(self) -> Carrying:
        """Carry a request and its answer. Raises `ConnectionError` or `TimeoutError` if the connection is cut."""
        return Carrying(self)

    def begin(self) -> asyncio.Timeout:
        """Return the scope of another exchange, which `cut` ends. Raises `ConnectionError`."""
        if not self.is_up:
            raise ConnectionError("the terminal has no network")
        scope = asyncio.timeout(None)
        self._carried.add(scope)
        return scope

    def end(self, scope: asyncio.Timeout) -> None:
        """Forget the exchange."""
        self._carried.discard(scope)

    async def wait(self, sleep: Callable[[float], Awaitable[object]], seconds: float) -> None:
        """Wait so long before another try; if the connection is cut, at most until it is restored."""
        if self.is_up:
            await sleep(seconds)
            return
        try:
            await asyncio.wait_for(self._restored.wait(), seconds)
        except TimeoutError:
            return

    def _cancel_timer(self) -> None:
        if self._restoring is not None:
            self._restoring.cancel()
            self._restoring = None


class Carrying:
    """One exchange over the connection. A class of its own, as every request of every terminal makes one."""

    __slots__ = ("_link", "_scope")

    def __init__(self, link: Link) -> None:
        self._link = link

    async def __aenter__(self) -> None:
        self._scope = self._link.begin()
        await self._scope.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.end(self._scope)
        await self._scope.__aexit__(kind, error, trace)
