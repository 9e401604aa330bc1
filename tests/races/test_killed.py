"""`kill -9` at random moments under load: what was answered is there, what was not happens once when it is repeated.

`python -m tests.faults kill` kills hundreds of times.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import short_and_long
from faults.kills import kill_often
from seeds import seeded

SHORT = 2
"""Kills of the short form, in which what a killed node has claimed is free at once."""


@pytest.mark.parametrize("kills", short_and_long(SHORT, 20))
@pytest.mark.long("it kills processes and starts them again")
async def test_no_answered_change_is_lost_and_none_happens_twice(database_url: str, tmp_path: Path, kills: int) -> None:
    """Some kills later the ledger is whole, and every event has been delivered, in order for each order."""
    seen = await kill_often(kills, database_url, tmp_path, seeded(), waits_for_leases=kills > SHORT)
    print(  # noqa: T201 - the figures of a run with -s
        f"{seen.faults} kills, {seen.acknowledged.total()} answers, {seen.unknown} repeats, {seen.deliveries} received"
    )
    assert seen.findings == []
    assert seen.acknowledged["create"] > 0
