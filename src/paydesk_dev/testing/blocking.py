"""Waits of tests: what they have in common, and the same on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

POLL_SECONDS = 1
"""How long a request of a wait takes at most, so that the wait ends soon after a planned step or a receiver fails."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def in_thread(wait: Callable[Parameters, Result]) -> Callable[Parameters, Coroutine[Any, Any, Result]]:
    """Return the same wait as a coroutine, which does not block the event loop."""

    @wraps(wait)
    async def wait_async(*arguments: Parameters.args, **fields: Parameters.kwargs) -> Result:
        return await asyncio.to_thread(wait, *arguments, **fields)

    return wait_async
