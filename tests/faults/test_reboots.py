"""Virtual terminals and their service are killed under load: each takes an order again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from conftest import first_and_others
from faults.reboots import TERMINALS, reboot_often

HELD_SECONDS_MIN = 30.0
"""What holds a terminal holds it for 40 s or longer; `python -m tests.faults reboots` measures the 5 s."""


@pytest.mark.parametrize("database_url", first_and_others("sqlite", "postgres"), indirect=True)
@pytest.mark.parametrize("times", [3, pytest.param(50, marks=pytest.mark.slow)])
async def test_no_terminal_is_held_after_a_reboot(
    times: int, database_url: str, tmp_path: Path, chance: random.Random
) -> None:
    """What is not free says what it waits for; nothing is charged twice."""
    done = await reboot_often(times, database_url, tmp_path, chance, taken_seconds_max=HELD_SECONDS_MIN)
    assert done.findings == []
    assert len(done.taken_seconds) == TERMINALS
    assert done.processed > 0
