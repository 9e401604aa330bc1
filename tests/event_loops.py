"""The two event loops that a node may run on: uvloop, and asyncio's own where uvloop is not installed.

Tests move the time of both.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest
import uvloop

import moved_time
from paydesk.core import runtime
from waiting import HANGS_SECONDS


class MovableUvLoop(uvloop.Loop):
    """uvloop by the moved time: timers wait in a heap here, and one timer of uvloop rings for the next of them."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[asyncio.TimerHandle] = []
        self._alarm: asyncio.TimerHandle | None = None
        moved_time.when_moved.append(self._moved)

    def close(self) -> None:
        """Close the loop."""
        moved_time.when_moved.remove(self._moved)
        super().close()

    def time(self) -> float:
        """Return the time by which timers fire."""
        return runtime.monotonic()

    def call_later(  # type: ignore[override]  # the stub binds the arguments to the callback
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back after so many seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at this time."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self.timers, timer)
        if self.timers[0] is timer:
            self._set_alarm()
        return timer

    def _timer_handle_cancelled(self, timer: asyncio.TimerHandle) -> None:
        """A cancelled timer stays in the heap until its time."""

    def _moved(self) -> None:
        self.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        now = self.time()
        while self.timers and self.timers[0].when() <= now:
            timer = heapq.heappop(self.timers)
            if not timer.cancelled():
                timer._run()
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self.timers:
            self._alarm = super().call_later(max(0, self.timers[0].when() - self.time()), self._ring)


LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": MovableUvLoop,
    "asyncio": moved_time.MovableLoop,
}
EACH_LOOP = ["uvloop", pytest.param("asyncio", marks=pytest.mark.slow)]


async def turns(count: int = 10) -> None:
    """Let the loop run `count` times, so that what is ready now is done."""
    for _ in range(count):
        await asyncio.sleep(0)


async def passes_until(condition: Callable[[], bool], seconds: float) -> None:
    """Let time pass, so many seconds at a time, until the condition holds."""
    until_seconds = time.monotonic() + HANGS_SECONDS
    while not condition():
        assert time.monotonic() < until_seconds
        moved_time.advance(seconds)
        await asyncio.sleep(0.002)
