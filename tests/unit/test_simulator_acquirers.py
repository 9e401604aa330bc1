"""Which acquirer processes test orders and live orders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import paydesk
from paydesk.core.clock import SystemClock
from paydesk.engine.payments.simulator.acquirer import Simulator, create_acquirers
from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.service.acquirers import acquirers_of


async def test_test_orders_are_simulated_and_live_orders_as_configured(sqlite_url: str) -> None:
    """With the simulated acquirer, live orders have an instance of their own; without one, none."""
    database = await open_database(sqlite_url)
    for acquirer, live in (("none", False), ("simulator", True)):
        acquirers = create_acquirers(database, SystemClock(), acquirer=acquirer)
        assert isinstance(acquirers.test, Simulator)
        name = acquirers.routing.acquirer_for(1, "BRL", "NEWLAND_N950__1")
        assert isinstance(acquirers.live.get(name or ""), Simulator) == live
        assert acquirers.live.get(name or "") is not acquirers.test
    await database.close()


async def test_a_setting_makes_approvals_wait_for_their_confirmation(sqlite_url: str) -> None:
    """Of test orders and of live ones."""
    database = await open_database(sqlite_url)
    for confirmations in (True, False):
        settings = Settings(acquirer="simulator", simulator_confirmations=confirmations)
        acquirers = acquirers_of(settings, database, SystemClock())
        for acquirer in (acquirers.test, *acquirers.live.values()):
            assert acquirer is not None
            assert acquirer.capabilities.needs_confirmation == confirmations
            assert acquirer.capabilities.fault(unknown_after_seconds=settings.unknown_after_seconds) is None
    await database.close()


async def test_invalid_script_prevents_the_start(sqlite_url: str) -> None:
    """The error names the setting and the rule."""
    database = await open_database(sqlite_url)
    with pytest.raises(StartRefused, match="simulator_script: 'payment:explode' is not a rule"):
        acquirers_of(Settings(simulator_script="payment:explode"), database, SystemClock())
    await database.close()


def test_only_the_simulator_the_invariants_retention_and_resets_use_its_ledger() -> None:
    """No other module names its tables."""
    sources = Path(paydesk.__file__).parents[1]
    found = {
        path.relative_to(sources).as_posix()
        for path in sources.rglob("*.py")
        if re.search(r"simulator_(payments|(confirmation_)?(movements|requests))", path.read_text())
    }
    deleting = {"paydesk/engine/payments/simulator/retention.py", "paydesk_dev/reset/reset.py"}
    shown = "paydesk_dev/charges.py"
    simulator, rules = "paydesk/engine/payments/simulator/ledger.py", "paydesk/engine/invariants/simulator_ledger.py"
    assert found == {simulator, rules, shown, *deleting}
