"""Nodes and their database are killed, stopped, cut off and lied to under load; what was promised holds all the same.

These are short forms of `python -m tests.faults chaos`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faults import chaos
from faults.breaking import FAULTS
from faults.chaos import Plan, Run
from postgres_server import PostgresServer
from seeds import seed

pytestmark = pytest.mark.slow

SECONDS = 4.0
# Every fault strikes at least once in so short a time.
PACE_SECONDS = {
    "node-kill": 1,
    "crash": 1,
    "postgres-kill": 1,
    "stop": 1.5,
    "stop-server": 3,
    "proxy": 0.5,
    "clock": 0.7,
    "clock-jump": 2,
}


async def test_promises_hold_when_nodes_and_postgres_are_killed(
    postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """Two nodes and PostgreSQL are killed: nothing acknowledged is lost, nothing happens twice."""
    plan = _plan(2, "node-kill", "crash", "postgres-kill")
    await _hold(plan, postgres_url, tmp_path, postgres_server)


async def test_promises_hold_when_connections_to_postgres_fail(
    postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """Two nodes and PostgreSQL stand still, wires are cut, clocks jump: the same holds."""
    await _hold(_plan(2, "stop", "proxy", "clock"), postgres_url, tmp_path, postgres_server)


async def test_promises_hold_on_sqlite(sqlite_url: str, tmp_path: Path) -> None:
    """One node is killed, stands still, is cut off and has a clock that jumps: the same holds."""
    await _hold(_plan(1, "node-kill", "crash", "stop", "proxy", "clock", server=False), sqlite_url, tmp_path, None)


def _plan(nodes: int, *names: str, server: bool = True) -> Plan:
    faults = [
        replace(fault, every_seconds=PACE_SECONDS[fault.name])
        for name in names
        for fault in FAULTS[name]
        if server or not fault.needs_server
    ]
    return Plan(SECONDS, tuple(faults), seed(), nodes, terminals=8, second_tills=2, applications=4)


async def _hold(plan: Plan, url: str, folder: Path, server: PostgresServer | None) -> None:
    run: Run = await chaos.run(plan, url, folder, server)
    assert run.violations == []
    assert run.counts, "something was broken"
    assert len(run.records.orders) > 0, "something was done"
    assert all(family.steps for family in run.records.families), "every application got new tokens"
