"""Time and chance that are the same in every run: import this before any other module of Paydesk.

Time passes only with `begin`. Random bytes depend on the number of the step, on the connection, on what draws them (for
a UUID its module, else a function such as `ids.ulid`), and on how often it did. What a unit of work draws that is
undone is drawn again.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import sys
import uuid
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from paydesk.core import ids, runtime

START_MS, STEP_MS = 1_769_866_002_109, 1_000

_step = 0
Work = Callable[[Any], Awaitable[Any]]
_draws: defaultdict[int, Counter[tuple[str, int]]] = defaultdict(Counter)
connection: ContextVar[int] = ContextVar("connection", default=-1)
"""The connection of the request that is under way."""


class FixedClock:
    """The clock of the service."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC."""
        return START_MS + _step * STEP_MS


def begin(step: int) -> None:
    """Begin a step: a second passes."""
    global _step  # noqa: PLW0603 - there is one time in a process
    _step = step
    _draws.clear()
    random.seed(step)
    vars(ids)["_places"] = itertools.count()


def urandom(size: int) -> bytes:
    """Return the bytes that `os.urandom` returns instead of random ones."""
    return _drawn(sys._getframe(1).f_code.co_name, size)  # noqa: SLF001


def _drawn(kind: str, size: int) -> bytes:
    number, drawn = connection.get(), _draws[connection.get()]
    drawn[kind, size] += 1
    seed, parts = f"{_step} {number} {kind} {size} {drawn[kind, size]}", -(-size // 32)
    return b"".join(hashlib.sha256(f"{seed} {part}".encode()).digest() for part in range(parts))[:size]


def alike(write: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return the `write` of a database in which what a unit of work draws in vain is drawn again."""

    async def written(work: Work, **options: Any) -> Any:
        before = _draws[connection.get()].copy()

        def attempt(tx: Any) -> Awaitable[Any]:
            _draws[connection.get()] = before.copy()
            return work(tx)

        try:
            return await write(attempt, **options)
        except BaseException:
            _draws[connection.get()] = before
            raise

    return written


def _uuid() -> str:
    """Return a UUID of those for one module; a checkout may make many in advance."""
    module: str = sys._getframe(1).f_globals["__name__"]  # noqa: SLF001
    return str(uuid.UUID(bytes=_drawn(module, 16), version=4))


class _Undrawn:
    """Stands for the pool of random bytes that `ids` fetches ahead."""

    take = staticmethod(urandom)


os.urandom = urandom
vars(random)["_urandom"] = urandom
vars(ids).update(_random=_Undrawn(), uuid=_uuid)
vars(runtime).update(
    monotonic=lambda: FixedClock().now_ms() / 1000,
    monotonic_ns=lambda: FixedClock().now_ms() * 1_000_000,
    wall_ns=lambda: FixedClock().now_ms() * 1_000_000,
)
