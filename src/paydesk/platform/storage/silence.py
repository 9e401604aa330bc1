"""The silence of a database server: from an answer that was overdue until the server answers again.

Meanwhile new requests are refused at once, for each would wait until its own deadline. Those under way keep their time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

PATIENCE_SECONDS = 1.0
"""New requests wait this long for the first answer: one slow statement is no reason to refuse any."""
ASK_SECONDS_MIN = 1.0
PAUSE_SECONDS = 0.1
SILENT = "The database is silent: an answer was overdue, and none has come since."
"""The reason of a refusal."""

log = structlog.get_logger("database")


class Silence:
    """Begins with an overdue answer; then `ask` is called with deadlines of 1 s to `seconds_max` until it returns True.

    Each attempt opens a connection. Short ones find a repaired network soon, which the system would wait longer and
    longer to try again; long ones succeed with a slow server.
    """

    def __init__(self, ask: Callable[[float], Awaitable[bool]], seconds_max: float) -> None:
        self._ask, self._seconds_max = ask, seconds_max
        self._asking: asyncio.Task[None] | None = None
        self._answered = asyncio.Event()
        self._patient_until = 0.0
        self.lasts = False

    def begin(self) -> None:
        """Begin, unless it lasts already."""
        if self.lasts:
            return
        self.lasts = True
        self._answered.clear()
        self._patient_until = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        self._asking = asyncio.create_task(self._ask_until_answered())

    async def ends_soon(self) -> bool:
        """Return whether the server answers within a second from the beginning."""
        await asyncio.sleep(0)  # A request that has not waited yet has no task, which a timeout needs.
        try:
            async with asyncio.timeout_at(self._patient_until):
                return await self._answered.wait()
        except TimeoutError:
            return False

    async def _ask_until_answered(self) -> None:
        seconds, is_logged = ASK_SECONDS_MIN, False
        while not await self._is_answered(min(seconds, self._seconds_max)):
            if not is_logged:
                is_logged = True
                log.warning("database_silent")
            seconds = seconds * 2 if seconds < self._seconds_max else ASK_SECONDS_MIN
            await asyncio.sleep(PAUSE_SECONDS)
        if is_logged:
            log.info("database_answers")
        self.lasts = False
        self._answered.set()

    async def _is_answered(self, seconds: float) -> bool:
        try:
            return await self._ask(seconds)
        except Exception:
            # Nothing may end the asking, or all requests would be refused for ever.
            log.exception("database_silence_unclear")
            return False

    async def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            with suppress(asyncio.CancelledError):
                await self._asking
