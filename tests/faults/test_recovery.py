"""A terminal and the service are killed during one payment: it ends as the protocol says, charged at most once."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.recovery import AWAY_SECONDS, SERVICE_STEPS, TERMINAL_STEPS, Cell, recover
from faults.recovery_command import CELLS

TURNS = tuple(
    Cell(terminal, SERVICE_STEPS[turn % len(SERVICE_STEPS)]) for turn, terminal in enumerate(TERMINAL_STEPS[1:], 1)
)
"""Every step of the terminal and every step of the service."""
AWAY = (
    Cell("authorizing sent", away_seconds=AWAY_SECONDS),
    Cell("permit journalled", away_seconds=AWAY_SECONDS),
)


@pytest.mark.long("it kills nodes and starts them again")
async def test_every_kill_ends_as_the_protocol_says(database_url: str, tmp_path: Path) -> None:
    """Each step of the terminal with one of the service, and a terminal that returns after its permit has expired."""
    _, faults = await recover(TURNS + AWAY, database_url, tmp_path)
    assert faults == []


@pytest.mark.slow
async def test_every_pair_of_kills_ends_as_the_protocol_says(database_url: str, tmp_path: Path) -> None:
    """Every step of the terminal with every step of the service."""
    _, faults = await recover(CELLS, database_url, tmp_path)
    assert faults == []
