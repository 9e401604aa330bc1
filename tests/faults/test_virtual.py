"""Virtual terminals behind a flaky network: nothing is lost, and nothing is charged twice.

The short form of `python -m tests.faults terminals`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from faults import virtual
from faults.chaos import Plan
from faults.virtual import Shop
from paydesk_dev.virtual.terminal.network import FLAKY_KINDS

pytestmark = pytest.mark.slow

PLAYLIST = "approve:0.1s*2,decline:high_risk:0.1s,approve:0.1s,cancel:0.1s,no_answer:0.1s"


async def test_promises_hold_with_flaky_terminals(database_url: str, tmp_path: Path) -> None:
    """Of both kinds, on both databases: every order ends as its terminal and the acquirer say."""
    plan = Plan(6.0, (), 7, nodes=1, terminals=40, second_tills=0, applications=2, kinds=("terminal", "service"))
    run = await virtual.run(plan, Shop(12, PLAYLIST, 0.1), database_url, tmp_path)
    assert run.violations == []
    assert len(run.records.orders) > 30
    outcomes = ("approved", "declined", "canceled", "unknown")
    assert all(run.counts.get(f"terminals: {name}") for name in (*outcomes, *FLAKY_KINDS)), run.counts
