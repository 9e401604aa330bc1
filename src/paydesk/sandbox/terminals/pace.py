"""The pace of a virtual terminal: how long it polls, and how long it pauses between attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from paydesk.sandbox.http_client import Reply
from paydesk.sandbox.terminals.client import ServiceUnavailable


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a terminal polls and pauses. `sleep` is injected, so that tests do not wait."""

    poll_seconds: int = 25
    backoff_seconds: tuple[float, ...] = (1, 2, 4, 8, 16, 32, 60)
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    between_tries: Callable[[float], Awaitable[object]] | None = None
    """Waits before the next try of a call; by default as `sleep` does."""
    authorizing_seconds: float = 0.6
    """How long a person sees at least that the payment is being authorized."""
    reboot_seconds: float = 6
    printing_seconds: float = 0.9
    """How long the content of a print action is printed."""

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after that many earlier failures in a row; the last value repeats."""
        return self.backoff_seconds[min(failures, len(self.backoff_seconds) - 1)]

    async def back_off(self, failures: int) -> None:
        """Wait for that pause."""
        await (self.between_tries or self.sleep)(self.pause(failures))

    async def retry(self, call: Callable[[], Awaitable[Reply]]) -> Reply:
        """Repeat the call until the service answers."""
        failures = 0
        while True:
            try:
                return await call()
            except ServiceUnavailable:
                await self.back_off(failures)
                failures += 1
