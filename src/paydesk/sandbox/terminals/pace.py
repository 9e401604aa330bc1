"""How fast a virtual terminal goes: how long it polls, how it waits, and its pauses before it tries again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """The pauses of a terminal. `sleep` is handed in, so that a test need not wait."""

    poll_seconds: int = 25
    backoff_seconds: tuple[float, ...] = (1, 2, 4, 8, 16, 32, 60)
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row, the first being 0; the last pause is kept up for ever."""
        return self.backoff_seconds[min(failures, len(self.backoff_seconds) - 1)]

    async def back_off(self, failures: int) -> None:
        """Wait so long."""
        await self.sleep(self.pause(failures))
