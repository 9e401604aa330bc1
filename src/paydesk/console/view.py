"""The texts of values on the console's pages: times, amounts, durations and shortened ids."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from markupsafe import Markup

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1000, 60_000, 3_600_000, 86_400_000

_ID = re.compile(r"(?:ORD|PAY|REF)?[0-9A-HJKMNP-TV-Z]{26}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_TIMES = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]+)?Z")


def instant_ms(date: str) -> int:
    """Return an RFC 3339 time in milliseconds since 1970."""
    return round(datetime.fromisoformat(date).timestamp() * 1000)


class Ago:
    """Shows times relative to now, with the exact time as a tooltip."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def __call__(self, date: str | None) -> Markup:
        """Return a `time` element such as "2 min ago"; nothing for None.

        The page's script counts it on by the clock of the service.
        """
        from markupsafe import Markup

        if not date:
            return Markup("")
        words = relative(self._now_ms - instant_ms(date))
        return Markup('<time datetime="{0}" title="{0}" data-ago>{1}</time>').format(date, words)

    def is_ahead(self, date: str | None) -> bool:
        """Return whether a time has not come yet; None never comes."""
        return date is not None and instant_ms(date) > self._now_ms

    def since(self, date: str) -> str:
        """Return how long ago a time was, such as "2 min"."""
        return duration(max(self._now_ms - instant_ms(date), 0))


def relative(past_ms: int) -> str:
    """Return "now", "5 s ago", "2 min ago", "3 h ago", "4 days ago", or "in 2 min"."""
    if abs(past_ms) < SECOND_MS:
        return "now"
    words = span(abs(past_ms))
    return f"{words} ago" if past_ms > 0 else f"in {words}"


def span(length_ms: int) -> str:
    """Return a length of time in its largest whole unit, such as "2 min"."""
    if length_ms < MINUTE_MS:
        return f"{length_ms // SECOND_MS} s"
    if length_ms < HOUR_MS:
        return f"{length_ms // MINUTE_MS} min"
    if length_ms < 2 * DAY_MS:
        return f"{length_ms // HOUR_MS} h"
    return f"{length_ms // DAY_MS} days"


def duration(length_ms: float) -> str:
    """Return a duration in three digits, such as "31 ms", "1.45 s", "12.8 s", "3 min 20 s"."""
    if length_ms < SECOND_MS:
        return f"{length_ms:.0f} ms"
    if length_ms < 10 * SECOND_MS:
        return f"{length_ms / SECOND_MS:.2f} s"
    if length_ms < MINUTE_MS:
        return f"{length_ms / SECOND_MS:.1f} s"
    if length_ms < HOUR_MS:
        minutes, rest = divmod(length_ms, MINUTE_MS)
        return f"{minutes:.0f} min {rest // SECOND_MS:.0f} s" if rest >= SECOND_MS else f"{minutes:.0f} min"
    return span(int(length_ms))


def indented(document: object) -> str:
    """Return a JSON document with line breaks."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def took(length_ms: float) -> str:
    """Return how long a request took, in whole milliseconds from the first on."""
    return duration(length_ms) if length_ms >= 1 else "<1 ms"


def short(identity: str, start: int = 6, end: int = 4) -> str:
    """Return an id shortened in its middle."""
    return identity if len(identity) <= start + end + 1 else f"{identity[:start]}…{identity[-end:]}"


def brief(path: str) -> str:
    """Return the path of a request with its ids shortened."""
    return _ID.sub(lambda match: short(match[0], 6 if match[0].startswith("ORD") else 4, 4), path)


def short_times(sentence: str, now_ms: int) -> Markup:
    """Return a sentence whose RFC 3339 times are short, such as "14:26 UTC", and have the exact one as a tooltip."""
    from markupsafe import Markup, escape

    today = datetime.fromtimestamp(now_ms / SECOND_MS, UTC).date()
    parts, end = [], 0
    for match in _TIMES.finditer(sentence):
        try:
            instant = datetime.fromisoformat(match[0]).astimezone(UTC)
        except (ValueError, OverflowError):
            continue  # People can choose names that only look like a time.
        words = (
            f"{instant:%H:%M} UTC" if instant.date() == today else f"{instant:%b} {instant.day}, {instant:%H:%M} UTC"
        )
        if instant.year != today.year:
            words = f"{instant:%Y-%m-%d %H:%M} UTC"
        time = Markup('<time datetime="{0}" title="{0}">{1}</time>').format(match[0], words)
        parts += [escape(sentence[end : match.start()]), time]
        end = match.end()
    return Markup("").join([*parts, escape(sentence[end:])])
