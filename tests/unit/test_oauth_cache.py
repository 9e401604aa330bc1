"""The cache: entries live for a while, and there is never more than a bounded number of them."""

from __future__ import annotations

from paydesk.core.cache import Cache


class Monotonic:
    """Monotonic time that a test moves."""

    seconds = 0.0

    def __call__(self) -> float:
        """Seconds since nothing in particular."""
        return self.seconds


def test_an_entry_lives_for_its_seconds() -> None:
    """It is there until the last moment, and then it is gone."""
    time = Monotonic()
    cache = Cache[str, int](5, 10, time)
    cache.put("a", 1)
    time.seconds = 4.9
    assert cache.get("a") == 1
    time.seconds = 5
    assert cache.get("a") is None
    assert len(cache) == 0


def test_a_full_cache_makes_room() -> None:
    """The entry that was put first goes; one put again is young."""
    cache = Cache[str, int](5, 2, Monotonic())
    cache.put("a", 1)
    cache.put("b", 2)
    cache.put("a", 3)
    cache.put("c", 4)
    assert [cache.get(key) for key in "abc"] == [3, None, 4]


def test_entries_are_dropped() -> None:
    """One by one, by what they are, or all at once."""
    cache = Cache[str, int](5, 10, Monotonic())
    for number, key in enumerate("abcd"):
        cache.put(key, number)
    cache.drop("a")
    cache.drop("unknown")
    cache.drop_where(lambda value: value == 1)
    assert [cache.get(key) for key in "abcd"] == [None, None, 2, 3]
    cache.clear()
    assert len(cache) == 0


def test_no_seconds_keep_nothing() -> None:
    """A cache may be switched off."""
    cache = Cache[str, int](0, 10)
    cache.put("a", 1)
    assert cache.get("a") is None
