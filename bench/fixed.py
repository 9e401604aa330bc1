"""Time and chance that are the same in every run: import this before any other module of Paydesk.

Time passes only with `begin`. Random bytes depend on the number of the step, on the function that draws them, such as
`ids.ulid`, and on how often it did in this step: one draw more, as of an attempt that is undone, changes few others.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import sys
from collections import Counter

from paydesk.core import ids, runtime

START_MS, STEP_MS = 1_769_866_002_109, 1_000

_step = 0
_draws: Counter[str] = Counter()


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
    kind = f"{sys._getframe(1).f_code.co_name} {size}"  # noqa: SLF001
    _draws[kind] += 1
    seed, parts = f"{_step} {kind} {_draws[kind]}", -(-size // 32)
    return b"".join(hashlib.sha256(f"{seed} {part}".encode()).digest() for part in range(parts))[:size]


class _Undrawn:
    """Stands for the pool of random bytes that `ids` fetches ahead."""

    take = staticmethod(urandom)


os.urandom = urandom
vars(random)["_urandom"] = urandom
vars(ids)["_random"] = _Undrawn()
vars(runtime).update(
    monotonic=lambda: FixedClock().now_ms() / 1000,
    monotonic_ns=lambda: FixedClock().now_ms() * 1_000_000,
    wall_ns=lambda: FixedClock().now_ms() * 1_000_000,
)
