"""The conformance kit: the virtual terminal passes every case, and each planted fault is found by its case."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

import pytest

from conformance_faults import FAULTS
from paydesk.conformance import bench, devices, runner
from paydesk.conformance.bench import Bench
from paydesk.conformance.cases import permits, restarts, results, sessions
from paydesk.conformance.kit import Patience
from paydesk.conformance.rules import RULES
from paydesk.http import server

QUICK = Patience(seconds=8, quiet_seconds=0.6)
RULE_CASES = {"no-card-data": "hello"}
"""A case to play for a rule."""


@pytest.fixture
async def opened() -> AsyncIterator[Bench]:
    """A bench without a terminal."""
    async with bench.opened(server.bind("127.0.0.1", 0), QUICK, lambda _: None) as opened:
        yield opened


async def _play(opened: Bench, only: Collection[str]) -> dict[str, str]:
    """Play the cases with the virtual terminal; return the reason of each case and rule that did not hold."""
    kit, token = opened.kit, opened.device_token
    async with devices.virtual(opened.base_url, opened.folder / "journal", opened.terminal_id, token) as restart:
        kit.restart_command = restart
        assert await runner.first_hello(kit, QUICK.seconds)
        outcomes = [outcome async for outcome in runner.play(kit, only)]
    assert {outcome.name for outcome in outcomes} == {*only, *RULES}
    assert all(outcome.reason for outcome in outcomes if outcome.status != "held")
    return {outcome.name: outcome.reason for outcome in outcomes if not outcome.passed}


@pytest.mark.parametrize("module", [sessions, permits, results, restarts], ids=lambda module: module.__name__[26:])
async def test_the_virtual_terminal_passes(opened: Bench, module: object) -> None:
    """Every case holds, and every rule throughout."""
    names = [name for name, case in runner.CASES.items() if case in vars(module).values()]
    assert names
    assert await _play(opened, names) == {}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_planted_fault_is_found(opened: Bench, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its case does not hold; a payment without faults does, so the terminal is otherwise sound."""
    plant, found_by = FAULTS[fault]
    plant(monkeypatch)
    missed = await _play(opened, ["payment", RULE_CASES.get(found_by, found_by)])
    assert found_by in missed
    assert "payment" not in missed
