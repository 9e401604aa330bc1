"""ISO 8601 durations of hours, minutes and seconds (`PT15M`, `PT1H30M`, `PT30S`), and short ones (`15m`)."""

from __future__ import annotations

import re
from functools import lru_cache

ACQUIRER_SECONDS_MAX = 30
"""Maximum duration of a call to the acquirer."""
EXPIRATION_SECONDS_MIN, EXPIRATION_SECONDS_MAX = 30, 3 * 3600
"""Bounds of an order's `expiration_time`."""

PATTERN = "PT(?=[0-9])(?:([0-9]{1,5})H)?(?:([0-9]{1,5})M)?(?:([0-9]{1,5})S)?"
"""A duration of hours, minutes and seconds."""
CHARACTERS_MAX = len("PT99999H99999M99999S")
ANY_PATTERN = (
    "P(?=[0-9]|T[0-9])(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+W)?(?:[0-9]+D)?"
    "(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:[.,][0-9]+)?S)?)?"
)
"""Any ISO 8601 duration."""
TYPED_PATTERN = "([0-9]{1,9})([smhd])"
"""A duration in short form."""
ANY_CHARACTERS_MAX = 40

_DURATION, _ANY, _TYPED = map(re.compile, (PATTERN, ANY_PATTERN, TYPED_PATTERN))
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str) -> int | None:
    """Return the duration in seconds, or None if the text is not one."""
    return _seconds_of(text) if len(text) <= CHARACTERS_MAX else None


@lru_cache(256)
def _seconds_of(text: str) -> int | None:
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def is_duration(text: str) -> bool:
    """Return whether the text is an ISO 8601 duration, including months, which have no fixed length."""
    return len(text) <= ANY_CHARACTERS_MAX and _ANY.fullmatch(text) is not None


def typed_seconds(text: str) -> int | None:
    """Return the seconds of `61s`, `15m`, `3h`, `181d` or an ISO 8601 duration, or None for any other text."""
    typed = _TYPED.fullmatch(text)
    return int(typed[1]) * _UNIT_SECONDS[typed[2]] if typed else seconds_of(text)
