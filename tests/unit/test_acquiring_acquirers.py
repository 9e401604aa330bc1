"""Which acquirer test and live orders have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import paydesk
from paydesk.app import acquirers_of
from paydesk.core.clock import SystemClock
from paydesk.node import StartRefused
from paydesk.payments.acquirer import Acquirers
from paydesk.sandbox.simulator.acquirer import Simulator, configured
from paydesk.settings import Settings
from paydesk.storage.connect import open_database


async def test_test_orders_are_always_simulated_and_live_ones_as_configured(sqlite_url: str) -> None:
    """Live orders have none, or, in development, a simulated one of their own."""
    database = await open_database(sqlite_url)
    for acquirer, live in (("none", False), ("simulator", True)):
        acquirers = configured(database, SystemClock(), acquirer=acquirer)
        assert isinstance(acquirers.of(False), Simulator)
        assert isinstance(acquirers.of(True), Simulator) == live
        assert acquirers.of(True) is not acquirers.of(False)
    assert Acquirers().of(False) is Acquirers().of(True) is None
    await database.close()


async def test_an_invalid_script_stops_the_start(sqlite_url: str) -> None:
    """The error names the setting and the valid values."""
    database = await open_database(sqlite_url)
    with pytest.raises(StartRefused, match="simulator_script: 'payment:explode' is no rule"):
        acquirers_of(Settings(simulator_script="payment:explode"), database, SystemClock())
    await database.close()


def test_only_the_simulator_names_its_tables() -> None:
    """Apart from the invariants that compare the ledgers."""
    sources = Path(paydesk.__file__).parent
    named = {
        path.relative_to(sources).as_posix()
        for path in sources.rglob("*.py")
        if re.search(r"simulator_(payments|movements|asks)", path.read_text())
    }
    assert named == {"sandbox/simulator/store.py", "invariants/simulator_ledger.py"}
