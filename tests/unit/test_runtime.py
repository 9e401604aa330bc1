"""The clocks of the machine, and that tests can move them."""

from __future__ import annotations

import asyncio

from moved_time import advance
from paydesk.core.limits.rates import Buckets


async def test_timers_and_rates_follow_the_moved_time() -> None:
    """Hours pass at once, for the event loop and for those who read the monotonic clock."""
    rates: Buckets[str] = Buckets(1, 3_600)
    assert rates.take("a") == 0
    assert rates.take("a") > 0
    fired = asyncio.Event()
    asyncio.get_running_loop().call_later(7_200, fired.set)
    advance(7_200)
    await fired.wait()
    assert rates.take("a") == 0
