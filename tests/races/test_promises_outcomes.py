"""Cancel, acknowledgement, grant, result and expiry of one order race: one of two wins, and the loser is told so.

`python -m tests.faults races` runs thousands of rounds of each and prints a table.
"""

from __future__ import annotations

import pytest

from faults.races import RACES, findings, run
from paydesk.storage.database import Database

pytestmark = pytest.mark.usefixtures("batching")

ROUNDS = 200


@pytest.mark.parametrize("name", RACES)
async def test_nothing_else_comes_out(database: Database, database_url: str, name: str) -> None:
    """Every outcome is one of those that are written down, each of them does come, and the ledger is whole."""
    outcomes = await run(RACES[name], database, database_url, ROUNDS)
    assert outcomes.total() == ROUNDS
    assert await findings(RACES[name], outcomes, database) == []
