"""How long a virtual terminal waits before it tries again."""

from __future__ import annotations

from paydesk.sandbox.terminals.client import Pace


async def test_pauses_double_up_to_a_minute() -> None:
    """1, 2, 4 … 60 seconds, and every minute from then on."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    for failures in range(9):
        await Pace(sleep=sleep).back_off(failures)
    assert slept == [1, 2, 4, 8, 16, 32, 60, 60, 60]
