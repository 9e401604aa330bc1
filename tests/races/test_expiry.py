"""A thousand orders expire: to the second, on nodes that die, and with clocks that jump."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import aiohttp
import pytest

import counted
from conftest import short_and_long
from faults.clocked_node import write_offset
from node_process import MOVES_ALL_CLOCKS, NodeProcess
from nodes import two_nodes
from oauth_scene import make_scene
from paydesk.core.clock import MovableClock, SystemClock
from paydesk.engine.invariants import check
from paydesk.engine.orders import expiry
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals import stores
from paydesk.platform.health.clock import ClockJumped, WatchedClock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Row, Transaction
from paydesk.platform.worker import WorkerContext
from paydesk.service.retention import Sweep
from service import KEYS, Device, Service, Terminal, access_token, running
from waiting import until_found

ORDERS = short_and_long(100, 1000)
AT_TERMINAL = 40
SHORTLY_LATER = 20
AT_ONCE = 50
EXPIRATION_TIME, EXPIRATION_MS, HOUR_MS = "PT30S", 30_000, 3_600_000
DEATHS = 2

ENDED = """
SELECT status_detail, version, updated_ms - created_ms, COUNT(*) FROM orders GROUP BY 1, 2, 3"""

ENDED_BY = """SELECT status_detail, ended_by, COUNT(*) FROM leases l
  JOIN orders o ON o.seller_id = l.seller_id AND o.order_id = l.order_id GROUP BY 1, 2"""

LIVE = "SELECT COUNT(*) FROM orders WHERE status IN ('created', 'at_terminal')"

EVERYTHING = """
SELECT (SELECT COUNT(*) FROM order_events), (SELECT COUNT(*) FROM idempotency_keys), (SELECT COUNT(*) FROM leases),
       (SELECT COUNT(*) FROM orders WHERE status = 'created'),
       (SELECT COUNT(*) FROM orders WHERE status = 'at_terminal'), (SELECT COUNT(*) FROM access_tokens)"""


async def _terminals(service: Service, count: int) -> list[Terminal]:
    """Create terminals in one transaction."""

    async def work(tx: Transaction) -> list[Terminal]:
        now_ms, seller_id = service.clock.now_ms(), service.seller_id
        shop = await stores.create_store(tx, seller_id, "Shop", now_ms)
        made = []
        for number in range(count):
            pos = await stores.create_pos(tx, seller_id, shop.store_id, f"POS{number}", "Till", now_ms)
            assert pos is not None
            terminal = await terminals.create(
                tx,
                seller_id=seller_id,
                pos_id=pos.pos_id,
                terminal_id=counted.terminal_id(),
                live=False,
                now_ms=now_ms,
                operating_mode="PDV",
            )
            assert terminal is not None
            token = await terminals.mint_token(tx, seller_id, terminal.terminal_id, now_ms)
            made.append(Terminal(terminal.terminal_id, token.reveal()))
        return made

    return await service.database.write(work)


async def _orders(service: Service, at: list[Terminal], expiration_time: str, *, taken: int = 0) -> None:
    """Create an order for each terminal, of which the first `taken` are acknowledged."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, terminal: Terminal) -> None:
        async with gate:
            reply = await service.create(terminal, expiration_time=expiration_time)
            assert reply.status == 201, reply
            if number < taken:
                device = await service.device(terminal)
                assert (await device.ack(reply.body["id"][3:])).status == 200

    await asyncio.gather(*(one(number, terminal) for number, terminal in enumerate(at)))


async def _rows(database: Database, sql: str) -> list[Row]:
    return await database.read(lambda tx: tx.all(sql), heavy=True)


async def _until_live(database: Database, orders: int) -> None:
    """Wait until at most `orders` are live."""

    async def are_few() -> bool:
        live: int = (await _rows(database, LIVE))[0][0]
        return live <= orders

    await until_found(are_few)


@pytest.mark.parametrize("orders", ORDERS)
async def test_a_thousand_expire_at_once_to_the_second(database: Database, database_url: str, orders: int) -> None:
    """None a millisecond early, each once, on two nodes; orders with a second more remain."""
    clock = MovableClock()
    clock.freeze()
    async with two_nodes(database, database_url, clock=clock) as (service, _):
        at = await _terminals(service, orders + SHORTLY_LATER)
        await _orders(service, at[:orders], EXPIRATION_TIME, taken=AT_TERMINAL)
        await _orders(service, at[orders:], "PT31S")
        clock.advance(EXPIRATION_MS - 1)
        database.signals.notify(["clock"])
        assert await expiry.EXPIRY.step(WorkerContext(database, Settings(), clock, KEYS)) == 0
        assert (await _rows(database, LIVE))[0][0] == orders + SHORTLY_LATER
        clock.advance(1)
        database.signals.notify(["clock"])
        await _until_live(database, SHORTLY_LATER)
        ended = {row[:3]: row[3] for row in map(tuple, await _rows(database, ENDED))}
        assert ended == {
            ("expired", 2, EXPIRATION_MS): orders - AT_TERMINAL,
            ("expired", 3, EXPIRATION_MS): AT_TERMINAL,
            ("created", 1, 0): SHORTLY_LATER,
        }
        assert [tuple(row) for row in await _rows(database, ENDED_BY)] == [("expired", "expiry", AT_TERMINAL)]
        clock.advance(1000)
        database.signals.notify(["clock"])
        await _until_live(database, 0)
    assert await check.check(database) == []


@asynccontextmanager
async def _seeded(database_url: str, base_url: str, count: int) -> AsyncIterator[tuple[Service, list[Terminal]]]:
    """Yield a seller with `count` terminals, whose database is closed before a node opens it."""
    database, clock = await open_database(database_url), MovableClock()
    scene = await make_scene(database)
    scene.clock = clock
    token = await access_token(scene, clock.now_ms(), live=False)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session:
        service = Service(base_url, database, clock, scene, session, token, token)
        at = await _terminals(service, count)
        await database.close()
        yield service, at


@pytest.mark.parametrize("orders", ORDERS)
async def test_orders_overdue_while_no_node_runs_expire_afterwards(
    database_url: str, tmp_path: Path, orders: int
) -> None:
    """The node is killed before the time, and repeatedly while it expires them: once each, all notified."""
    clock_file = tmp_path / "clock"
    write_offset(clock_file, 0)
    node = NodeProcess(database_url, tmp_path, module="faults.clocked_node", **{MOVES_ALL_CLOCKS: "yes"})
    node.arguments.append(str(clock_file))
    with closing(node):
        async with _seeded(database_url, node.base_url, orders) as (service, at):
            await asyncio.to_thread(node.start)
            # The orders outlive the making of the last of them, however slow the machine is.
            await _orders(service, at, "PT10M", taken=AT_TERMINAL)
            node.kill()
            write_offset(clock_file, 601_000)
            for death in range(DEATHS + 1):
                await asyncio.to_thread(node.start)
                # The last one expires what the killed ones have left.
                await _until_few_live(database_url, 0 if death == DEATHS else orders * (DEATHS - death) // DEATHS - 1)
                if death < DEATHS:
                    node.kill()
            await asyncio.to_thread(node.end)
    database = await open_database(database_url)
    try:
        ended = Counter({(row[0], row[1]): 0 for row in await _rows(database, ENDED)})
        for detail, version, lived_ms, count in await _rows(database, ENDED):
            assert lived_ms >= 600_000, "not before its time"
            ended[detail, version] += count
        assert ended == {("expired", 2): orders - AT_TERMINAL, ("expired", 3): AT_TERMINAL}
        assert await check.check(database, SystemClock().now_ms() + 601_000) == []
    finally:
        await database.close()


async def _until_few_live(database_url: str, orders: int) -> None:
    database = await open_database(database_url, exclusive=False)
    try:
        await _until_live(database, orders)
    finally:
        await database.close()


class Wall:
    """A settable wall clock."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def ns(self) -> int:
        """Return the time."""
        return time.time_ns() + self.offset_ms * 1_000_000


async def test_a_clock_jump_expires_nothing(database: Database) -> None:
    """Off by hours the node is not ready, and nothing expires or is purged; it continues once the clock is right."""
    wall = Wall()
    clock = WatchedClock(wall.ns)
    async with running(database, clock=clock) as service:
        context = WorkerContext(database, Settings(), clock, KEYS)
        at = await _terminals(service, 40)
        await _orders(service, at, "PT10M", taken=10)
        before = [tuple(row) for row in await _rows(database, EVERYTHING)]
        for offset_ms in (-HOUR_MS, 24 * HOUR_MS, -40 * 24 * HOUR_MS, 400 * 24 * HOUR_MS):
            wall.offset_ms = offset_ms
            database.signals.notify(["clock"])
            with pytest.raises(ClockJumped):
                await expiry.EXPIRY.step(context)
            with pytest.raises(ClockJumped):
                await Sweep(context, asyncio.Event()).run()
            ready = await service.request("GET", "/readyz", token=None)
            jumped = f"the wall clock jumped by {offset_ms // 1000} s since this process started"
            assert (ready.status, ready.details) == (503, [f"clock: {jumped}"])
            refused = await service.create(at[0])
            assert (refused.status, refused.code) == (503, "service_unavailable")
            assert [tuple(row) for row in await _rows(database, EVERYTHING)] == before
        wall.offset_ms = 0
        assert (await service.request("GET", "/readyz", token=None)).status == 200
        await _continues(service, at[0])
    assert await check.check(database) == []


async def _continues(service: Service, terminal: Terminal) -> None:
    """Pay an order that was created before the jump."""
    standing = await service.create(terminal)
    assert standing.code == "already_queued_order_on_terminal"
    lease_id = standing.details[0].split()[0][3:]
    device: Device = await service.device(terminal)
    assert (await device.ack(lease_id)).status == 200
    assert (await device.authorizing(lease_id)).status == 200
    assert (await device.approve(lease_id)).status == 200
