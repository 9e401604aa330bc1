"""Every committed event is delivered to each subscription, in order per order, by any number of workers."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

import webhooks_scene as scene
from event_loops import turns
from paydesk.core.clock import MovableClock
from paydesk.engine.webhooks.delivery import store
from paydesk.engine.webhooks.schedule import SUPERSEDED_AFTER_ATTEMPTS
from paydesk.platform.jobs import Claim
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction

pytestmark = pytest.mark.usefixtures("batching")

ORDERS, VERSIONS, WORKERS, CLAIMED = 12, 4, 3, 200


async def test_concurrent_workers_deliver_each_event_once(
    database: Database, database_url: str, clock: MovableClock
) -> None:
    """Three workers, on PostgreSQL on one node each, deliver every event once and in order."""
    got = await _race(database, database_url, clock, failures=0)
    assert set(got.values()) == {1}


async def test_order_is_kept_while_attempts_fail(database: Database, database_url: str, clock: MovableClock) -> None:
    """No version of an order arrives before its predecessor has, or was superseded after five failures."""
    await _race(database, database_url, clock, failures=0.3)


async def test_concurrent_claims_are_disjoint(database: Database, database_url: str, clock: MovableClock) -> None:
    """No two nodes claim the same delivery."""
    subscription_id, _ = await scene.subscribe(database, "https://shop.example/hooks")
    for _ in range(CLAIMED):
        await scene.announce(database, clock.now_ms(), scene.order_id())
    now_ms = clock.now_ms()

    async def claim(tx: Transaction) -> list[store.Claimed]:
        times = Claim(now_ms, now_ms, now_ms + 30_000, limit=20)
        return await scene.claim(tx, subscription_id, times)

    async with AsyncExitStack() as stack:
        nodes = await _nodes(stack, database, database_url, 4)
        claims = await asyncio.gather(*(node.write(claim) for _ in range(10) for node in nodes))
    taken = Counter(one.delivery_id for several in claims for one in several)
    assert set(taken.values()) == {1}
    assert {one.attempt for several in claims for one in several} == {1}


async def _nodes(stack: AsyncExitStack, database: Database, database_url: str, count: int) -> list[Database]:
    """Open `count` nodes on PostgreSQL, one on SQLite."""
    nodes = [database]
    while len(nodes) < count:
        node = database
        if database.name == "postgres":
            node = await open_database(database_url)
            stack.push_async_callback(node.close)
        nodes.append(node)
    return nodes


async def _race(
    database: Database, database_url: str, clock: MovableClock, failures: float
) -> Counter[tuple[str, int]]:
    dice, order_of_arrival = random.Random(7), defaultdict[str, list[int]](list)

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        order, version = receiver.got[-1].order_and_version
        await turns(dice.randrange(20))
        if dice.random() < failures:
            return web.Response(status=500)
        order_of_arrival[order].append(version)
        return web.Response()

    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(scene.receiver(answer))
        nodes = await _nodes(stack, database, database_url, WORKERS)
        workers = [
            await stack.enter_async_context(scene.worker(node, clock, webhook_retry_seconds=(1,) * 50))
            for node in nodes
        ]
        await scene.subscribe(database, receiver.url)
        running = [asyncio.create_task(worker.run(stop)) for worker in workers]
        orders = [scene.order_id() for _ in range(ORDERS)]
        await asyncio.gather(*(_announce(database, clock, order) for order in orders))

        def last_versions_arrived() -> bool:
            clock.advance(50)
            database.signals.notify(["clock"])
            return all(order_of_arrival[order][-1:] == [VERSIONS] for order in orders)

        await scene.until(last_versions_arrived)
        stop.set()
        for node in nodes:
            node.signals.notify(["stop"])
        await asyncio.gather(*running)
        for order in orders:
            ended = await scene.deliveries(database, order)
            assert order_of_arrival[order] == [one.version for one in ended if one.status == "delivered"]
            assert {one.status for one in ended if one.attempts < SUPERSEDED_AFTER_ATTEMPTS} <= {"delivered"}
            assert {one.status for one in ended} <= {"delivered", "superseded"}
    return Counter(one.order_and_version for one in receiver.got)


async def _announce(database: Database, clock: MovableClock, order: str) -> None:
    for version in range(1, VERSIONS + 1):
        await scene.announce(database, clock.now_ms(), order, version)
