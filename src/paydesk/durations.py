"""ISO 8601 durations of hours, minutes and seconds: `PT15M`, `PT1H30M`, `PT30S`."""

from __future__ import annotations

import re

EXPIRATION_SECONDS_MIN, EXPIRATION_SECONDS_MAX = 30, 3 * 3600
"""What an order's `expiration_time` may be."""

_DURATION = re.compile(r"PT(?=\d)(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,5})S)?", re.ASCII)


def seconds_of(text: str) -> int | None:
    """The duration in seconds, or None when it is none."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds
