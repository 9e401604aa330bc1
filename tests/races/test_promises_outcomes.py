"""Cancel, acknowledgement, permit, result and expiry of one order race: one of two wins, the other is refused.

`python -m tests.faults races` runs thousands of rounds of each and prints a table.
"""

from __future__ import annotations

import pytest

from conftest import short_and_long
from faults.races import RACES, findings, run
from paydesk.core.clock import SystemClock
from paydesk.engine.invariants import check
from paydesk.engine.orders import store
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.platform.storage.database import Database
from service import running

pytestmark = pytest.mark.usefixtures("batching")


@pytest.mark.parametrize("rounds", short_and_long(12, 120))
@pytest.mark.parametrize("name", RACES)
async def test_only_the_listed_outcomes_occur(database: Database, database_url: str, name: str, rounds: int) -> None:
    """Each of them does occur, and the invariants hold."""
    outcomes = await run(RACES[name], database, database_url, rounds)
    assert outcomes.total() == rounds
    assert await findings(RACES[name], outcomes, database) == []


async def test_an_order_granted_since_it_was_read_does_not_expire(database: Database) -> None:
    """An overdue order is permitted between its read and the expiry: it does not expire."""
    clock = SystemClock()
    async with running(database, clock=clock) as service:
        device = await service.device(await service.terminal())
        order = (await service.create(device.terminal)).body
        assert (await device.ack(order["id"][3:])).status == 200
        read = await database.read(lambda tx: store.find(tx, service.scene.seller.seller_id, order["id"]))
        assert read is not None
        assert (await device.authorizing(order["id"][3:])).status == 200
        now = await database.write(lambda tx: store.expire_overdue(Change(tx, read.expires_ms, PLAIN), read))
        assert now.permitted_ms is not None
        assert (await device.approve(order["id"][3:])).status == 200
        assert (await service.get(order["id"]))["status"] == "processed"
    assert await check.check(database) == []
