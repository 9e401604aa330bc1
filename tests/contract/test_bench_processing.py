"""The till that makes and pays hundreds of thousands of orders while the service's memory is watched."""

from __future__ import annotations

import aiohttp
import pytest
from bench.processing import Till

from paydesk.engine.invariants import check
from paydesk.platform.storage.database import Database
from service import running


@pytest.mark.on_postgres
async def test_a_till_pays_order_after_order(database: Database) -> None:
    """Each ends as processed, by a payment of its own."""
    done: list[int] = []
    async with running(database) as service, aiohttp.ClientSession(service.base_url) as session:
        device = await service.device(await service.terminal())
        seeded = {"token": device.terminal.token, "boot_id": device.boot_id}
        await Till(session, service.access_token, device.terminal.id, seeded).work(iter((1, 2)), done.append)
        found = await service.request("GET", "/v1/orders")
        assert [order["status"] for order in found.body["data"]] == ["processed", "processed"]
    assert done == [1, 2]
    assert await check.check(database) == []
