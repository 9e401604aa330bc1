"""The workers of several nodes on one PostgreSQL are rivals: each order is ended once, and none waits for another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from paydesk.core.clock import MovableClock
from paydesk.engine.orders import expiry
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from service import KEYS, Service, running

ORDERS, NODES = 12, 3


@pytest.fixture
async def nodes(postgres_url: str) -> AsyncIterator[list[Database]]:
    """The database as three nodes have it."""
    opened = [await open_database(postgres_url) for _ in range(NODES)]
    yield opened
    for database in opened:
        await database.close()


@pytest.fixture
async def service(nodes: list[Database], clock: MovableClock) -> AsyncIterator[Service]:
    """A service without workers, whose clock stands still."""
    clock.freeze()
    async with running(nodes[0], clock=clock, workers=False) as service:
        yield service


async def overdue(service: Service, clock: MovableClock, count: int) -> list[str]:
    """So many orders whose time has run out."""
    made = [(await service.create(await service.terminal(), expiration_time="PT30S")).body["id"] for _ in range(count)]
    clock.advance(30_000)
    return made


async def test_rivals_end_each_order_once(nodes: list[Database], service: Service, clock: MovableClock) -> None:
    """Three nodes that look at the same moment write one event an order."""
    made = await overdue(service, clock, ORDERS)
    workers = [WorkerContext(node, Settings(), clock, KEYS) for node in nodes]
    while any(await asyncio.gather(*(expiry.EXPIRY.step(worker) for worker in workers))):
        pass
    orders = [await service.get(order_id) for order_id in made]
    assert {(order["status_detail"], order["version"]) for order in orders} == {("expired", 2)}
    events = await nodes[0].read(lambda tx: tx.one("SELECT COUNT(*) FROM order_events WHERE move = 'expire'"))
    assert events is not None
    assert events[0] == ORDERS


async def test_what_another_holds_is_passed_over(
    nodes: list[Database], service: Service, clock: MovableClock, postgres_url: str
) -> None:
    """The others end meanwhile; what was held ends once it is free."""
    held, *others = await overdue(service, clock, 3)
    worker = WorkerContext(nodes[1], Settings(), clock, KEYS)
    connection = await asyncpg.connect(postgres_url)
    try:
        async with connection.transaction():
            await connection.execute("SELECT 1 FROM orders WHERE order_id = $1 FOR UPDATE", held)
            # A worker that waited for it would be refused after ten seconds.
            assert await expiry.EXPIRY.step(worker) == 3
            found = {
                row[0]
                for row in await nodes[2].read(lambda tx: tx.all("SELECT order_id FROM orders WHERE version = 2"))
            }
            assert found == set(others)
    finally:
        await connection.close()
    assert await expiry.EXPIRY.step(worker) == 1
    assert (await service.get(held))["status_detail"] == "expired"
