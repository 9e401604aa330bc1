"""The clocks of the machine, and that tests can move them."""

from __future__ import annotations

import asyncio

from moved_time import advance
from paydesk.core import runtime
from paydesk.core.rates import Buckets


async def test_timers_and_rates_follow_the_moved_time() -> None:
    """Hours pass at once, for the event loop and for those who read the monotonic clock."""
    rates: Buckets[str] = Buckets(1, 3_600)
    assert (rates.take("a"), rates.wait("a") > 3_500) == (0, True)
    sleeping = asyncio.create_task(asyncio.sleep(7_200))
    await asyncio.sleep(0)
    before, wall = runtime.monotonic_ns(), runtime.wall_ns()
    advance(7_200)
    await sleeping
    assert rates.take("a") == 0
    assert runtime.monotonic_ns() - before >= 7_200_000_000_000
    assert runtime.wall_ns() - wall < 7_200_000_000_000
