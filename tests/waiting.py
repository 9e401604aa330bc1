"""Waiting for an event: what a test does where it would otherwise sleep and hope.

The deadline only ends a hang. It is far above what a busy machine needs, so no test fails by it that would have passed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")

HANGS_SECONDS = 60.0


async def until(condition: Callable[[], bool], what: Callable[[], object] = lambda: "") -> None:
    """Wait until the condition holds; `what` says what was there instead if it never does."""
    until_seconds = time.monotonic() + HANGS_SECONDS
    while not condition():
        assert time.monotonic() < until_seconds, what()
        await asyncio.sleep(0.002)


async def until_found(find: Callable[[], Awaitable[Found]]) -> Found:
    """Return what `find` returns, once that is true."""
    until_seconds = time.monotonic() + HANGS_SECONDS
    while not (found := await find()):
        assert time.monotonic() < until_seconds, found
        await asyncio.sleep(0.005)
    return found


def timer(seconds: float) -> asyncio.Event:
    """Return an event that is set after so long by the loop's time: what comes once it is set came no sooner."""
    rung = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, rung.set)
    return rung


def wait_until(condition: Callable[[], bool], what: Callable[[], object] = lambda: "") -> None:
    """Block until the condition holds, for tests that are not asynchronous."""
    until_seconds = time.monotonic() + HANGS_SECONDS
    while not condition():
        assert time.monotonic() < until_seconds, what()
        time.sleep(0.005)
