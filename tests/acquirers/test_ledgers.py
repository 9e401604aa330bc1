"""Terminals sell while nodes are killed and hosts fail on a third of the calls: in the end both ledgers are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from acquirers.run import run
from conftest import first_and_others, short_and_long
from seeds import seeded


@pytest.mark.on_postgres
@pytest.mark.long("terminals wait for their permits' time, and nodes are killed every second or two")
@pytest.mark.parametrize("payments", short_and_long(75, 2500))
@pytest.mark.parametrize("side", first_and_others("port", "http"))
async def test_ledgers_are_equal_after_kills_and_faults(
    database_url: str, tmp_path: Path, side: str, payments: int
) -> None:
    """Nothing is charged, confirmed or refunded twice; no terminal is held; nothing stays open."""
    nodes = 2 if database_url.startswith("postgres") else 1
    report = await run(database_url, tmp_path, seeded(), side=side, payments=payments, nodes=nodes)
    print(report)  # noqa: T201 - shown when it fails
    assert report.findings == []
