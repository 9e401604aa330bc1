"""What the tests that try to break a promise share."""

from __future__ import annotations

import pytest

from paydesk.storage import sqlite
from paydesk.storage.postgres import PostgresDatabase


@pytest.fixture(params=["together", "alone"])
def batching(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits shares commits, as it does in a service, or each unit of work has one of its own."""
    if request.param == "alone":
        monkeypatch.setattr(sqlite, "FLUSH_WORKS_MAX", 1)
        defaults = PostgresDatabase.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "batch_units_max", 1)
