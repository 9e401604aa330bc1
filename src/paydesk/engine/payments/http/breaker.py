"""The circuit breaker of a connection: after failures nothing is sent to the switch but an echo now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from paydesk.core.runtime import monotonic
from paydesk.engine.payments.acquirer import Echo
from paydesk.engine.payments.acquirers import note_request
from paydesk.engine.payments.adapters.context import AdapterContext, BreakerState

FAILURES_MAX = 5
"""Failures in a row that open it."""
PAUSES_SECONDS = (5, 10, 20, 40, 60)
"""Pauses before the echoes of an open breaker; the last one repeats."""

log = structlog.get_logger("acquirer")


class Breaker:
    """Begins untested, and open after failures. An answered echo closes it; payments never probe.

    `send` sends an echo. Pauses between echoes begin anew only after a minute without an outage.
    """

    def __init__(self, name: str, send: Callable[[], Awaitable[Echo]], context: AdapterContext) -> None:
        self._name, self._send, self._context = name, send, context
        self._failures, self._tested = 0, asyncio.Event()
        self._proving: asyncio.Task[None] | None = None
        self._paused, self._closed_ns = 0, 0
        self.state: BreakerState = "untested"
        self.reason: str | None = None
        self.next_echo_ms: int | None = None

    async def refusal(self) -> str | None:
        """Return why nothing may be sent, or None. The first call of a process waits for the first echo."""
        if self.state == "untested":
            self._prove()
            await self._tested.wait()
        return None if self.state == "closed" else f"the circuit breaker is open: {self.reason}"

    async def echo(self) -> Echo:
        """Send an echo at once and return its answer; a good one closes the breaker."""
        before, echo = self.state, await self._tried()
        if before != "closed":
            # A new task reports at once, also during a pause.
            await self.close()
            self._prove()
        return echo

    def succeeded(self) -> None:
        """Count an answer."""
        self._failures = 0

    def failed(self, reason: str) -> None:
        """Count a failure; the fifth in a row opens it."""
        self._failures += 1
        if self._failures >= FAILURES_MAX:
            self.trip(reason)

    def trip(self, reason: str) -> None:
        """Open it at once."""
        if self.state == "closed":
            if self._context.now_ns() - self._closed_ns >= PAUSES_SECONDS[-1] * 10**9:
                self._paused = 0
            self.state, self.reason = "open", reason
            self._prove()

    async def close(self) -> None:
        """End the echoes."""
        if self._proving is not None:
            self._proving.cancel()
            with suppress(asyncio.CancelledError):
                await self._proving

    def _prove(self) -> None:
        if self._proving is None or self._proving.done():
            self._proving = asyncio.create_task(self._until_answered(), name=f"echo {self._name}")

    async def _until_answered(self) -> None:
        """Send echoes until one is answered, and report each result until an answer is reported too."""
        if self.state == "untested":
            await self._tried()
        while True:
            state, is_reported = self.state, await self._report()
            if state != self.state:
                continue  # It was opened or closed meanwhile, which is reported too.
            if is_reported and state == "closed":
                return
            pause = PAUSES_SECONDS[min(self._paused, len(PAUSES_SECONDS) - 1)]
            self._paused += 1
            self.next_echo_ms = self._context.now_ns() // 10**6 + pause * 1000
            await self._context.sleep(pause)
            if self.state != "closed":
                await self._tried()

    async def _tried(self) -> Echo:
        """Send an echo and return its answer, which closes the breaker. A defect of the adapter counts as a fault."""
        began = monotonic()
        try:
            echo = await self._send()
        except Exception as error:
            log.exception("acquirer_echo_failed", acquirer=self._name)
            echo = Echo(f"the echo failed: {type(error).__name__}")
        note_request(self._name, "echo", "unanswered" if echo.fault else "answered", began)
        if self.state != "closed":
            self.state, self.reason = ("closed", None) if echo.fault is None else ("open", echo.fault)
            self._failures, self._closed_ns, self.next_echo_ms = 0, self._context.now_ns(), None
        self._tested.set()
        return echo

    async def _report(self) -> bool:
        """Report the state; return whether that succeeded."""
        try:
            await self._context.report(self.state == "closed", self.reason or "it answers an echo")
        except Exception:
            log.exception("acquirer_report_failed", acquirer=self._name)
            return False
        return True
