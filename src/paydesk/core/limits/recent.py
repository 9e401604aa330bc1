"""Values that are expensive to compute, kept for up to 20 s: concurrent callers share one computation."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from paydesk.core import runtime

SHARE = 0.05
"""Computing takes at most this share of the time: a value is kept for 20 times as long as it took."""
SECONDS_MAX = 20.0
VALUES_MAX = 64


class Recent:
    """The last values by key, at most `VALUES_MAX`, each kept for `seconds_min` or longer."""

    def __init__(self, monotonic: Callable[[], float] = runtime.monotonic, *, seconds_min: float = 0.0) -> None:
        self._monotonic, self._seconds_min = monotonic, seconds_min
        # By key: until when the value is kept, and the value.
        self._values: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._computing: dict[Hashable, asyncio.Task[Any]] = {}

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[Any]]) -> Any:
        """Return the value of the key, computed now or at most 20 s ago. Raises what `compute` raises."""
        kept = self._values.get(key)
        if kept is not None and self._monotonic() < kept[0]:
            return kept[1]
        if key not in self._computing:
            self._computing[key] = asyncio.create_task(self._compute(key, compute))
        # A caller that disconnects does not end the computation for the others.
        return await asyncio.shield(self._computing[key])

    async def _compute(self, key: Hashable, compute: Callable[[], Awaitable[Any]]) -> Any:
        try:
            begun = self._monotonic()
            value = await compute()
            ended = self._monotonic()
            seconds = min(max((ended - begun) / SHARE, self._seconds_min), SECONDS_MAX)
            self._values[key] = ended + seconds, value
            self._values.move_to_end(key)
            while len(self._values) > VALUES_MAX:
                self._values.popitem(last=False)
            return value
        finally:
            del self._computing[key]
