"""Durations as they are sent."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from paydesk.core.text import durations
from paydesk.core.text.durations import seconds_of

NUMBER = st.none() | st.integers(0, 99_999)


@given(NUMBER, NUMBER, NUMBER)
@example(99_999, 99_999, 99_999)
def test_a_duration_is_the_sum_of_its_parts(hours: int | None, minutes: int | None, seconds: int | None) -> None:
    """The longest too, and the same the second time; without any part it is none."""
    parts = {"H": hours, "M": minutes, "S": seconds}
    text = "PT" + "".join(f"{number:05d}{unit}" for unit, number in parts.items() if number is not None)
    assert len(text) <= durations.CHARACTERS_MAX
    total = (hours or 0) * 3600 + (minutes or 0) * 60 + (seconds or 0) if text != "PT" else None
    assert seconds_of(text) == seconds_of(text) == total


def test_a_long_text_is_no_duration_and_is_not_kept() -> None:
    """A request has up to 64 KiB, and a cache of such texts would be large."""
    durations._seconds_of.cache_clear()
    assert seconds_of("PT" + "1" * 65_000 + "S") is None
    assert durations._seconds_of.cache_info().currsize == 0
