"""Time that a test moves forward: the event loop's and `runtime.monotonic`'s, so that no test waits for a timer.

Importing this replaces the clocks of `runtime`: `conftest.py` does it before all other modules of Paydesk.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
import socket
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import wraps
from ipaddress import ip_address
from typing import Any, ParamSpec, TypeVar

from paydesk.core import runtime

P = ParamSpec("P")
T = TypeVar("T")

_ahead_ns = 0
"""What tests have moved time by in this process. It never goes back."""

when_moved: list[Callable[[], None]] = []
"""What is called after each move, for loops that don't look at the time by themselves."""

_waits_for_the_machine: ContextVar[bool] = ContextVar("waits_for_the_machine", default=False)


def advance(seconds: float) -> None:
    """Move time forward: every timer due by then (`sleep`, `wait_for`, `call_later`) fires in the next turn."""
    global _ahead_ns  # noqa: PLW0603 - there is one time in a process
    _ahead_ns += round(seconds * 1_000_000_000)
    _postpone(getattr(asyncio._get_running_loop(), "timers", []), seconds)
    for call in tuple(when_moved):
        call()


def by_the_machine(call: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Let `advance` postpone the timers of a coroutine function: a process answers it whose time is not moved."""

    @wraps(call)
    async def called(*args: P.args, **kwargs: P.kwargs) -> T:
        before = _waits_for_the_machine.set(True)
        try:
            return await call(*args, **kwargs)
        finally:
            _waits_for_the_machine.reset(before)

    return called


def _postpone(timers: list[asyncio.TimerHandle], seconds: float) -> None:
    """Postpone those timers in a heap that `by_the_machine` set."""
    for timer in timers:
        if timer._context.get(_waits_for_the_machine, False):  # type: ignore[attr-defined]
            timer._when += seconds  # type: ignore[attr-defined]
    heapq.heapify(timers)


def moved_seconds() -> float:
    """Return what tests have moved time by so far."""
    return _ahead_ns / 1_000_000_000


def _monotonic_ns() -> int:
    return time.monotonic_ns() + _ahead_ns


def _monotonic() -> float:
    return _monotonic_ns() / 1_000_000_000


class MovableLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, by the moved time. It reaches no public address: nothing that is tested is there."""

    _scheduled: list[asyncio.TimerHandle]

    @property
    def timers(self) -> list[asyncio.TimerHandle]:
        """Return the heap of those that have not fired."""
        return self._scheduled

    def time(self) -> float:
        """Return the time by which timers fire."""
        return _monotonic()

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect; a public address refuses at once, as one with no server does."""
        if sock.family != socket.AF_UNIX and ip_address(address[0]).is_global:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "A test reaches no public address")
        await super().sock_connect(sock, address)


runtime.monotonic, runtime.monotonic_ns = _monotonic, _monotonic_ns
