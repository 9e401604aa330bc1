"""The retry schedule, as tables."""

from __future__ import annotations

from paydesk.engine.webhooks.schedule import next_attempt_ms, retry_after_seconds
from paydesk.platform.settings import Settings
from tables import each

PAUSES = Settings().webhook_retry_seconds
NOW_MS = 1_000_000
MOMENT = 784_111_777.0  # 1994-11-06T08:49:37Z


@each(
    "attempts, chance, retry_after_s, pause_ms",
    [
        (1, 0.5, None, 15_000),
        (1, 0.0, None, 13_500),
        (1, 1.0, None, 16_500),
        (2, 0.5, None, 60_000),
        (3, 0.5, None, 300_000),
        (10, 0.5, None, 86_400_000),
        (11, 0.5, None, None),
        (1, 0.5, 120, 120_000),
        (1, 0.5, 7200, 3_600_000),
        (1, 0.5, 1, 15_000),
        (8, 0.5, 60, 43_200_000),
        (11, 0.5, 60, None),
    ],
)
def test_next_attempt(attempts: int, chance: float, retry_after_s: int | None, pause_ms: int | None) -> None:
    """The pause follows the schedule with 10 % jitter; a longer `Retry-After` applies up to an hour."""
    due = next_attempt_ms(
        attempts, now_ms=NOW_MS, pauses_seconds=PAUSES, chance=chance, retry_after_seconds=retry_after_s
    )
    assert due == (None if pause_ms is None else NOW_MS + pause_ms)


@each(
    "header, seconds",
    [
        (None, None),
        ("", None),
        ("120", 120),
        (" 5 ", 5),
        ("9" * 40, 3600),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 0),
        ("Sun, 06 Nov 2994 08:50:37 GMT", 3600),
        ("Sun, 06 Nov 1994 08:50:37 +99999999999999999999", None),
    ],
)
def test_retry_after(header: str | None, seconds: int | None) -> None:
    """Seconds and dates are parsed, anything else is ignored."""
    assert retry_after_seconds(header, now_seconds=MOMENT) == seconds
