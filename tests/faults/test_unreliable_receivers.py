"""Receivers that fail and a delivering process that is killed: everything is accounted for, in order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from faults.unreliable_receivers import BAD, HEALTHY, RESETS, Arrivals
from faults.unreliable_run import Plan, run


@pytest.mark.long("a killed process is started again, on real sockets")
async def test_every_delivery_is_accounted_for(database_url: str, tmp_path: Path, chance: random.Random) -> None:
    """The healthy receiver gets every event, whatever the others do; versions of an order first arrive in order."""
    receivers = (HEALTHY, *BAD)
    plan = Plan(events=120, seconds=3, kill_seconds=1, receivers=receivers, slow_seconds=0.5, waits_for_leases=False)
    outcome = await run(plan, database_url, tmp_path, chance, lambda _: None)
    assert outcome.findings == []
    assert outcome.kills > 0
    assert outcome.statuses[HEALTHY] == {"delivered": 120}
    assert outcome.statuses[RESETS].get("delivered", 0) == 0


def test_versions_out_of_order_are_found() -> None:
    """A repeated version is none."""
    arrivals = Arrivals(random.Random(1), 0)
    for version in (1, 2, 1, 3):
        arrivals.add("a", _body(version))
    assert arrivals.out_of_order() == []
    for version in (2, 1):
        arrivals.add("b", _body(version))
    assert arrivals.out_of_order() == ["b: versions of ORD1 first arrived as [2, 1]"]


def _body(version: int) -> bytes:
    return b'{"date_created": "2026-01-31T14:27:01.004Z", "data": {"id": "ORD1", "version": %d}}' % version
