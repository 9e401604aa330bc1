"""The look-up cache: entries expire, the oldest makes room, and a change drops what it affects."""

from __future__ import annotations

from paydesk.core.limits.cache import LookupCache
from paydesk.core.signals import EVERYTHING, Signals


class Monotonic:
    """Monotonic time that a test moves."""

    seconds = 0.0

    def __call__(self) -> float:
        """Return the seconds since an arbitrary start."""
        return self.seconds


async def fill(cache: LookupCache[str, int], **entries: int) -> None:
    """Store entries, each by a look-up."""

    async def look_up(value: int) -> int:
        return value

    for key, value in entries.items():
        assert await cache.fetch(key, look_up(value)) == value


def values(cache: LookupCache[str, int], keys: str) -> list[int | None]:
    """Return what is stored for each key."""
    return [cache.get(key) for key in keys]


async def test_an_entry_expires_after_its_seconds() -> None:
    """It is found until the last moment, and then deleted."""
    time = Monotonic()
    cache = LookupCache[str, int](5, 10, Signals(), time)
    await fill(cache, a=1)
    time.seconds = 4.9
    assert cache.get("a") == 1
    time.seconds = 5
    assert cache.get("a") is None
    assert len(cache) == 0


async def test_a_full_cache_drops_the_entry_stored_first() -> None:
    """An entry that is stored again counts as new."""
    cache = LookupCache[str, int](5, 2, Signals(), Monotonic())
    await fill(cache, a=1, b=2)
    await fill(cache, a=3)
    await fill(cache, c=4)
    assert values(cache, "abc") == [3, None, 4]


async def test_a_change_drops_the_affected_entries() -> None:
    """Those of its topic, or all entries."""
    signals = Signals()
    cache = LookupCache[str, int](5, 10, signals, Monotonic())
    cache.drop_on("number:", lambda topic, value: topic == f"number:{value}")
    cache.clear_on("applications")
    for topic, left in (("number:1", [0, None, 2]), ("applications", [None] * 3), (EVERYTHING, [None] * 3)):
        await fill(cache, a=0, b=1, c=2)
        signals.notify_local((topic,))
        assert values(cache, "abc") == left


async def test_a_value_read_before_a_change_is_not_stored() -> None:
    """It is returned to the request that asked for it."""
    signals = Signals()
    cache = LookupCache[str, int](5, 10, signals, Monotonic())

    async def look_up() -> int:
        signals.notify_local((EVERYTHING,))
        return 1

    assert await cache.fetch("a", look_up()) == 1
    assert cache.get("a") is None


async def test_zero_seconds_store_nothing() -> None:
    """The cache can be switched off."""
    cache = LookupCache[str, int](0, 10, Signals())
    await fill(cache, a=1)
    assert cache.get("a") is None
