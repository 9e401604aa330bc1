"""Pauses of a virtual terminal between attempts."""

from __future__ import annotations

from paydesk_dev.virtual.terminal.client import Pace


async def test_backoff_doubles_up_to_one_minute() -> None:
    """1, 2, 4 … 60 s, and 60 s from then on."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    for failures in range(9):
        await Pace(sleep=sleep).back_off(failures)
    assert slept == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_quick_pace_leaves_out_what_is_for_eyes() -> None:
    """Pauses between attempts stay: they are for the service."""
    quick = Pace().quick()
    assert (quick.authorizing_seconds, quick.reboot_seconds, quick.printing_seconds) == (0, 0.3, 0.1)
    assert quick.backoff_seconds == Pace().backoff_seconds
