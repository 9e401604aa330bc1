"""Who moves the money of which orders."""

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
    """Without an acquirer live orders have none; with the simulated one, in development, one of their own."""
    database = await open_database(sqlite_url)
    for acquirer, live in (("none", False), ("simulator", True)):
        acquirers = configured(database, SystemClock(), acquirer=acquirer)
        assert isinstance(acquirers.of(False), Simulator)
        assert isinstance(acquirers.of(True), Simulator) == live
        assert acquirers.of(True) is not acquirers.of(False)
    assert Acquirers().of(False) is Acquirers().of(True) is None
    await database.close()


async def test_a_script_that_is_none_stops_the_start(sqlite_url: str) -> None:
    """The setting is named, with what could be written."""
    database = await open_database(sqlite_url)
    with pytest.raises(StartRefused, match="simulator_script: 'payment:explode' is no rule"):
        acquirers_of(Settings(simulator_script="payment:explode"), database, SystemClock())
    await database.close()


def test_the_book_is_nobody_elses() -> None:
    """Only the acquirer itself, and whoever compares the books, names its tables."""
    sources = Path(paydesk.__file__).parent
    named = {
        path.relative_to(sources).as_posix()
        for path in sources.rglob("*.py")
        if re.search(r"simulator_(payments|movements|asks)", path.read_text())
    }
    assert named == {"sandbox/simulator/store.py", "invariants/simulator_ledger.py"}
