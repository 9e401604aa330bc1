"""The circuit breaker of a connection: after failures nothing is sent to the switch but an echo now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import chain, repeat

import structlog

from paydesk.engine.payments.adapters.context import AdapterContext, BreakerState

FAILURES_MAX = 5
"""Failures in a row that open it."""
PAUSES_SECONDS = (5, 10, 20, 40)
PAUSE_SECONDS_MAX = 60
"""Pauses before the echoes of an open breaker; the last one repeats."""

log = structlog.get_logger("acquirer")


class Breaker:
    """Begins untested, and open after failures. An answered echo closes it; payments never probe.

    `echo` returns why there was no answer that can be trusted, or None.
    """

    def __init__(self, name: str, echo: Callable[[], Awaitable[str | None]], context: AdapterContext) -> None:
        self._name, self._echo, self._context = name, echo, context
        self._failures, self._tested = 0, asyncio.Event()
        self._proving: asyncio.Task[None] | None = None
        self.state: BreakerState = "untested"
        self.reason: str | None = None

    async def refusal(self) -> str | None:
        """Return why nothing may be sent, or None. The first call of a process waits for the first echo."""
        if self.state == "untested":
            self._prove()
            await self._tested.wait()
        return None if self.state == "closed" else f"the circuit breaker is open: {self.reason}"

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
        while self.state != "closed":
            await self._recover()

    async def _recover(self) -> None:
        pauses, fault = chain(PAUSES_SECONDS, repeat(PAUSE_SECONDS_MAX)), self.reason or await self._fault()
        was_open = fault is not None
        if was_open:
            self.state, self.reason = "open", fault
            self._tested.set()
            await self._report(is_reachable=False)
        while fault is not None:
            self.reason = fault
            await self._context.sleep(next(pauses))
            fault = await self._fault()
        self.state, self.reason, self._failures = "closed", None, 0
        self._tested.set()
        if was_open:
            await self._report(is_reachable=True)

    async def _fault(self) -> str | None:
        """Return the fault of an echo. A defect of the adapter counts as a fault: the echoes go on."""
        try:
            return await self._echo()
        except Exception as error:
            log.exception("acquirer_echo_failed", acquirer=self._name)
            return f"the echo failed: {type(error).__name__}"

    async def _report(self, *, is_reachable: bool) -> None:
        try:
            await self._context.report(is_reachable, self.reason or "it answers an echo again")
        except Exception:
            log.exception("acquirer_report_failed", acquirer=self._name)
