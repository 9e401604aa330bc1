"""The picture of the retries of a webhook, from the default schedule."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from math import log

from paydesk.engine.webhooks.schedule import SUPERSEDED_AFTER_ATTEMPTS
from paydesk.platform.settings import Settings
from tools.docs.svg import WIDTH, svg, text

_ROW = 30
_BAR_LEFT, _BAR_WIDTH = 208, 250
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def pauses() -> tuple[int, ...]:
    """Return the default pauses between attempts, in seconds."""
    default: tuple[int, ...] = Settings.model_fields["webhook_retry_seconds"].default
    return default


def duration(seconds: int) -> str:
    """Return a duration in words, with at most two units."""
    found = []
    for size, unit in _UNITS:
        if seconds >= size:
            found.append(f"{seconds // size} {unit}")
            seconds %= size
    return " ".join(found[:2])


def retries() -> str:
    """Return the picture of all attempts of a notification, with their times after the first one."""
    schedule = pauses()
    starts = list(accumulate(schedule, initial=0))
    parts = [
        text(0, 16, "Attempt", "title"),
        text(92, 16, "Pause ±10 %", "title"),
        text(_BAR_LEFT, 16, "After the first attempt", "title"),
        text(WIDTH, 16, "logarithmic", "small", "end"),
    ]
    y = 28
    for attempt, start in enumerate(starts, 1):
        if attempt == SUPERSEDED_AFTER_ATTEMPTS + 1:
            parts += _note(y, "If a newer version of the order waits, it is sent instead: superseded")
            y += 34
        pause = duration(schedule[attempt - 2]) if attempt > 1 else ""
        parts += _attempt(attempt, pause, start, starts[-1], y)
        y += _ROW
    parts += _note(y, "No further attempt: exhausted. It can be sent again, by hand")
    return svg(parts, y + 40, alternative_text())


def alternative_text() -> str:
    """Return the picture in a sentence, for those who can't see it."""
    listed = ", ".join(map(duration, pauses()))
    return f"{len(pauses()) + 1} attempts: the first at once, the others after {listed}"


def _attempt(attempt: int, pause: str, start: int, last: int, y: int) -> Iterator[str]:
    # In a linear scale the first five attempts would be one point.
    end = _BAR_LEFT + _BAR_WIDTH * log(1 + start) / log(1 + last)
    yield text(0, y + 19, str(attempt), "")
    yield text(92, y + 19, pause, "code")
    yield f'<rect class="bar" x="{_BAR_LEFT}" y="{y + 8}" width="{end - _BAR_LEFT + 3:.1f}" height="12" rx="3"/>'
    yield text(round(end + 12, 1), y + 19, duration(start) or "at once", "code")


def _note(y: int, sentence: str) -> Iterator[str]:
    yield f'<line class="cut" x1="0" x2="{WIDTH}" y1="{y + 6}" y2="{y + 6}"/>'
    yield text(0, y + 26, sentence, "warning")
