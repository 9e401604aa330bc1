"""Values that are kept for a moment."""

from __future__ import annotations

import asyncio

import pytest

from paydesk.core.limits.recent import SECONDS_MAX, VALUES_MAX, Recent


class Scene:
    """A value that takes `takes` seconds to compute, counted."""

    def __init__(self, takes: float) -> None:
        self.now, self.takes, self.computed = 100.0, takes, 0
        self.recent = Recent(lambda: self.now)

    async def compute(self) -> int:
        """Take time, and count."""
        self.now += self.takes
        self.computed += 1
        return self.computed


async def test_a_value_is_kept_for_20_times_as_long_as_it_took() -> None:
    """But at most 20 s."""
    for takes, kept in ((0.01, 0.2), (0.1, 2.0), (3.0, SECONDS_MAX)):
        scene = Scene(takes)
        assert await scene.recent.get("a", scene.compute) == 1
        scene.now += kept * 0.99
        assert await scene.recent.get("a", scene.compute) == 1
        assert await scene.recent.get("b", scene.compute) == 2
        scene.now += kept * 0.02
        assert await scene.recent.get("a", scene.compute) == 3


async def test_a_value_can_be_kept_longer() -> None:
    """For a time that does not depend on how long it took."""
    scene = Scene(0.01)
    scene.recent = Recent(lambda: scene.now, seconds_min=15)
    for after, computed in ((0.0, 1), (14.9, 1), (0.2, 2)):
        scene.now += after
        assert await scene.recent.get("a", scene.compute) == computed


async def test_concurrent_callers_share_one_computation() -> None:
    """One that is cancelled does not end it for the others."""
    recent, computed, begun = Recent(), 0, asyncio.Event()

    async def compute() -> int:
        nonlocal computed
        computed += 1
        await begun.wait()
        return 7

    callers = [asyncio.create_task(recent.get("a", compute)) for _ in range(3)]
    await asyncio.sleep(0)
    callers[0].cancel()
    await asyncio.sleep(0)
    begun.set()
    assert await asyncio.gather(*callers[1:]) == [7, 7]
    assert computed == 1


async def test_an_error_is_not_kept() -> None:
    """The next caller computes again."""
    recent, errors = Recent(), [OSError("away")]

    async def compute() -> int:
        if errors:
            raise errors.pop()
        return 7

    with pytest.raises(OSError, match="away"):
        await recent.get("a", compute)
    assert await recent.get("a", compute) == 7


async def test_few_values_are_kept() -> None:
    """The oldest is dropped first."""
    scene = Scene(0.1)
    for key in range(VALUES_MAX + 1):
        await scene.recent.get(key, scene.compute)
    assert len(scene.recent._values) == VALUES_MAX
