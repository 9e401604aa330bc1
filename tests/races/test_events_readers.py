"""A client that follows `next` gets every event exactly once and in order, under crashes and concurrent numbering."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from conftest import first_and_others, short_and_long
from node_process import NodeProcess
from oauth_scene import Scene, make_scene
from paydesk.core.clock import SystemClock
from paydesk.core.crash_points import StepLabel
from paydesk.engine.events.store import Feed, number
from paydesk.engine.invariants import check
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Row
from refund_scene import ledgers_agree
from service import Reply, Service, Terminal, access_token, order_body, running
from waiting import until

WRITERS = 8
ORDERS = 20
ALL = """
SELECT e.order_id, e.version, e.number FROM order_events e
  JOIN orders o ON o.seller_id = e.seller_id AND o.order_id = e.order_id WHERE e.seller_id = $1 ORDER BY e.number"""
Seen = list[tuple[str, int]]


@dataclass
class Nodes:
    """Node processes on one database, some of which may be down, with a client of each."""

    scene: Scene
    services: list[Service]
    processes: list[NodeProcess]
    terminals: list[Terminal] = field(default_factory=list)
    choices: random.Random = field(default_factory=lambda: random.Random(7))

    def any(self) -> Service:
        """Return a random node, which may be down."""
        return self.choices.choice(self.services)

    async def insist(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Reply:
        """Repeat the request on random nodes until one answers."""
        while True:
            try:
                reply = await self.any().request(method, path, body, key=key)
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(0.02)
                continue
            if reply.status not in (423, 503):
                return reply


@asynccontextmanager
async def _nodes(database_url: str, folder: Path, terminals: int) -> AsyncIterator[Nodes]:
    database, clock = await open_database(database_url), SystemClock()
    scene = await make_scene(database)
    token = await access_token(scene, clock.now_ms(), live=False)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)))
        count = 1 if database.name == "sqlite" else 2
        processes = [stack.enter_context(closing(NodeProcess(database_url, folder))) for _ in range(count)]
        services = [Service(one.base_url, database, clock, scene, session, token, token) for one in processes]
        nodes = Nodes(scene, services, processes, [await services[0].terminal() for _ in range(terminals)])
        await database.close()
        for process in processes:
            await asyncio.to_thread(process.start)
        yield nodes
        for process in processes:
            await asyncio.to_thread(process.end)


async def _write(nodes: Nodes, terminal: Terminal, stop: asyncio.Event) -> None:
    """Create orders one after the other and move each to its end."""
    while not stop.is_set():
        made = await nodes.insist("POST", "/v1/orders", order_body(terminal.id), key=str(uuid.uuid4()))
        assert made.status == 201, made
        path = f"/v1/orders/{made.body['id']}"
        status = nodes.choices.choice(("processed", "failed", "canceled"))
        while (await nodes.insist("GET", path)).body["status"] in ("created", "at_terminal"):
            # A node may have crashed between the two steps of a payment: the repetition continues it.
            done = await nodes.insist("POST", f"{path}/events", {"status": status})
            # 400: the lost answer was 204.
            assert done.status in (204, 400), done


async def _follow(nodes: Nodes, seen: Seen, after: str, written: asyncio.Event) -> str:
    """Read until everything is written and read; return the last `next`."""
    while True:
        was_written = written.is_set()
        query = f"?wait={0 if was_written else nodes.choices.choice((0, 1, 1))}" + (f"&after={after}" if after else "")
        page = await nodes.insist("GET", f"/v1/events{query}")
        assert page.status == 200, page
        seen += [(event["data"]["id"], event["data"]["version"]) for event in page.body["data"]]
        after = page.body["next"]
        if was_written and not page.body["data"]:
            return after


@pytest.mark.parametrize("kills", short_and_long(2, 4))
async def test_every_event_is_read_once_and_in_order(database_url: str, tmp_path: Path, kills: int) -> None:
    """8 clients write while nodes are killed and restarted; two nodes on PostgreSQL."""
    async with _nodes(database_url, tmp_path, WRITERS) as nodes:
        stop, written = asyncio.Event(), asyncio.Event()
        seen: Seen = []
        other: Seen = []
        writers = [asyncio.create_task(_write(nodes, terminal, stop)) for terminal in nodes.terminals]
        readers = [asyncio.create_task(_follow(nodes, one, "", written)) for one in (seen, other)]
        for number in range(kills):
            read = len(seen)
            await until(lambda: len(seen) > read + WRITERS)  # noqa: B023 - called in this round
            process = nodes.processes[number % len(nodes.processes)]
            await asyncio.to_thread(process.kill)
            await asyncio.to_thread(process.start)
        await until(lambda: len(seen) > WRITERS * 3)
        stop.set()
        await asyncio.gather(*writers)
        written.set()
        await asyncio.gather(*readers)
        again: Seen = []
        await _follow(nodes, again, "", written)
    events = await _events(database_url, nodes.scene)
    assert [row[2] for row in events] == list(range(1, len(events) + 1)), "numbers have no gaps"
    assert len(events) > WRITERS * 3
    assert seen == other == again == [(row[0], row[1]) for row in events]
    last: dict[str, int] = {}
    for order_id, version in seen:
        assert version == last.get(order_id, 0) + 1, "an order's events come in order of version"
        last[order_id] = version


async def _events(database_url: str, scene: Scene) -> list[Row]:
    """Check the invariants and the simulator ledger, and return all events."""
    database = await open_database(database_url)
    try:
        assert await check.check(database) == []
        await ledgers_agree(database)
        return await database.read(lambda tx: tx.all(ALL, scene.seller.seller_id))
    finally:
        await database.close()


@pytest.mark.usefixtures("batching")
async def test_nodes_number_at_once(database: Database, database_url: str) -> None:
    """Two nodes on PostgreSQL number in many small steps: numbers have no gaps or duplicates."""
    async with AsyncExitStack() as stack:
        databases = [database]
        if database.name == "postgres":
            databases.append(await open_database(database_url))
            stack.push_async_callback(databases[-1].close)
        service = await stack.enter_async_context(running(database, workers=False))
        terminal = await service.terminal()
        for _ in range(ORDERS):
            await service.cancel((await service.create(terminal)).body["id"])
        feed = Feed(service.seller_id, service.scene.application.application_id, 0)
        steps = [one.write(partial(number, feed=feed, limit=3)) for one in databases for _ in range(ORDERS)]
        await asyncio.gather(*steps)
        assert await number_of_events(database) == 2 * ORDERS
        assert await check.check(database, service.clock.now_ms()) == []


async def number_of_events(database: Database) -> int:
    """Return the number of numbered events."""
    row = await database.read(lambda tx: tx.one("SELECT COUNT(*) FROM order_events WHERE number IS NOT NULL"))
    assert row is not None
    count: int = row[0]
    return count


@pytest.mark.parametrize("label", first_and_others("asked", "intent_committed"))
async def test_a_node_crashes_while_it_simulates_an_outcome(
    database_url: str, tmp_path: Path, label: StepLabel
) -> None:
    """The repeated request continues, and the order and the simulator ledger agree."""
    async with _nodes(database_url, tmp_path, 1) as nodes:
        node, process = nodes.services[0], nodes.processes[0]
        order_id = (await node.create(nodes.terminals[0])).body["id"]
        path = f"/v1/orders/{order_id}"

        async def crash_and_repeat(status: str) -> Reply:
            """Send a request that crashes the node; return the answer to its repetition."""
            body = {"status": status}
            with pytest.raises(aiohttp.ClientError):
                await node.request("POST", f"{path}/events", body, key=None, headers={"X-Crash-At": label})
            assert await asyncio.to_thread(process.died) == -9
            await asyncio.to_thread(process.start)
            return await node.request("POST", f"{path}/events", body, key=None)

        assert (await crash_and_repeat("processed")).status == 204
        assert (await node.get(order_id))["status"] == "processed"
        # The worker continues the refund, under the refund's own key.
        assert (await crash_and_repeat("refunded")).status == 400
    await _events(database_url, nodes.scene)
