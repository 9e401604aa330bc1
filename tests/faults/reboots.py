"""A service with quick virtual terminals under load is killed at random, and so are the terminals.

After the last start every terminal takes a new order within 5 s, or its slot says what it waits for.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from forks import Fork, Forks
from node_process import NodeProcess
from oauth_scene import make_scene
from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock
from paydesk.core.secrets import Secret
from paydesk.engine.invariants import check
from paydesk.engine.orders.status import FINAL
from paydesk.platform.storage.connect import open_database
from paydesk_dev.virtual import journal as journals
from paydesk_dev.virtual.journal import Journal
from paydesk_process import environment
from service import Reply, Service, Terminal, access_token, order_body
from waiting import until

TERMINALS = 12
SALES = (1, 12)
"""How many orders are created between two kills."""
TERMINALS_KILLED = 0.4
"""How often the terminals are killed too."""
TAKEN_SECONDS_MAX = 5.0
FREE_SECONDS_MAX = 150.0
"""Longer than the two minutes after which a payment that is not found counts as none."""
POLL_SECONDS = 0.05

FOR_THE_ACQUIRER = ("result", "inquiry", "reversal")
"""What a slot may wait for although its terminal is there."""
CHARGES = """
SELECT (SELECT COUNT(*) FROM orders WHERE status = 'processed'), (SELECT COUNT(*) FROM orders WHERE status = 'failed'),
       (SELECT COUNT(*) FROM simulator_payments WHERE outcome = 'approved' AND reversed_ms IS NULL),
       (SELECT COUNT(*) FROM simulator_payments WHERE outcome = 'approved' AND reversed_ms IS NOT NULL)"""

_forks = Forks("faults.virtual_terminals")


@dataclass
class Rebooted:
    """What was seen: kills, orders, reversed charges, and the seconds after which each terminal took an order."""

    kills: int = 0
    terminal_kills: int = 0
    processed: int = 0
    failed: int = 0
    reversed: int = 0
    taken_seconds: list[float] = field(default_factory=list)
    waited_for: list[str] = field(default_factory=list)
    """For each terminal that took longer than 5 s: its slot then, and how long it took."""
    findings: list[str] = field(default_factory=list)


@dataclass
class Shop:
    """A node, the process of its terminals, and a till for each terminal."""

    node: NodeProcess
    service: Service
    folder: Path
    terminals: list[Terminal]
    operator: Operator
    stopping: bool = False
    sold: int = 0
    _process: Fork | None = None

    def start_terminals(self) -> None:
        """Start the process of the terminals."""
        arguments = [self.node.base_url, str(self.folder), str(self.service.seller_id)]
        self._process = _forks.start(arguments, environment(), self.folder / "terminals.log")

    def kill_terminals(self) -> None:
        """`kill -9`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    async def sell(self, terminal: Terminal) -> None:
        """Create one order after another until `stopping` is set."""
        while not self.stopping:
            reply = await self.created(terminal)
            if reply.status == 201:
                self.sold += 1
                await self.until_ended(reply.body["id"])
            else:
                await asyncio.sleep(POLL_SECONDS)

    async def created(self, terminal: Terminal) -> Reply:
        """Create an order, repeated under its key until it is answered."""
        return await self._known("POST", "/v1/orders", order_body(terminal.id), key=str(uuid.uuid4()))

    async def until_ended(self, order_id: str) -> None:
        """Wait until the order has ended, or the till is to stop."""
        while not self.stopping:
            if (await self._known("GET", f"/v1/orders/{order_id}")).body["status"] in ("processed", *FINAL):
                return
            await asyncio.sleep(POLL_SECONDS)

    async def until_taken(self, terminal: Terminal) -> None:
        """Create an order as soon as the terminal is free, and wait until it has been acknowledged."""
        while (reply := await self.created(terminal)).status != 201:  # noqa: ASYNC110 - another process gives no sign
            await asyncio.sleep(POLL_SECONDS)
        path = f"/v1/orders/{reply.body['id']}"
        while (await self._known("GET", path)).body["status"] == "created":  # noqa: ASYNC110 - the same
            await asyncio.sleep(POLL_SECONDS)

    async def waits_for(self, terminal: Terminal) -> str:
        """Return what the terminal's slot says that it waits for, or "" if that is not the acquirer's answer."""
        reply = await self.operator.ask("GET", f"terminals/{terminal.id}/queue")
        current = reply.body.get("current", {})
        return str(current["message"]) if current.get("waits_for") in FOR_THE_ACQUIRER else ""

    async def _known(self, method: str, path: str, body: object = None, *, key: str | None = None) -> Reply:
        while True:
            try:
                reply = await self.service.request(method, path, body, key=key)
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(POLL_SECONDS)
                continue
            if reply.status < 500 and reply.status != 423:
                return reply


async def reboot_often(
    times: int,
    database_url: str,
    folder: Path,
    chance: random.Random,
    *,
    taken_seconds_max: float = TAKEN_SECONDS_MAX,
    seen: Callable[[], object] = lambda: None,
) -> Rebooted:
    """Kill the service on a new, migrated database so often, and see each terminal take an order afterwards."""
    done = Rebooted()
    async with _shop(database_url, folder) as shop:
        tills = [asyncio.create_task(shop.sell(terminal)) for terminal in shop.terminals]
        for _ in range(times):
            sold = shop.sold + chance.randint(*SALES)
            await until(lambda: shop.sold >= sold)  # noqa: B023 - called in this round
            await _kill(shop, chance, done)
            seen()
        shop.stopping = True
        await asyncio.gather(*tills)
        started = time.monotonic()
        await asyncio.gather(*(_take(shop, terminal, started, done, taken_seconds_max) for terminal in shop.terminals))
        shop.kill_terminals()
        shop.start_terminals()
        await _drain(shop)
        shop.kill_terminals()
        await asyncio.to_thread(shop.node.end)
    database = await open_database(database_url)
    try:
        done.findings += [str(finding) for finding in await check.check(database)]
        row = await database.read(lambda tx: tx.one(CHARGES))
    finally:
        await database.close()
    assert row is not None
    done.processed, done.failed, charges, done.reversed = row
    if charges != done.processed:
        done.findings.append(f"{done.processed} orders are processed, the acquirer has {charges} charges")
    return done


async def _kill(shop: Shop, chance: random.Random, done: Rebooted) -> None:
    """Kill the service, at times the terminals before or after it, and start them again."""
    done.kills += 1
    if chance.random() >= TERMINALS_KILLED:
        shop.node.kill()
        await asyncio.to_thread(shop.node.start)
        return
    done.terminal_kills += 1
    deaths = [shop.kill_terminals, shop.node.kill]
    chance.shuffle(deaths)
    for death in deaths:
        death()
    starts = [shop.node.start, shop.start_terminals]
    chance.shuffle(starts)
    for start in starts:
        await asyncio.to_thread(start)


async def _take(shop: Shop, terminal: Terminal, started: float, done: Rebooted, seconds_max: float) -> None:
    """Have the terminal take an order; note how long that takes, and what it waits for if it takes longer."""
    taking, slot = asyncio.create_task(shop.until_taken(terminal)), ""
    finished, _ = await asyncio.wait((taking,), timeout=seconds_max)
    if not finished:
        slot = await shop.waits_for(terminal)
        if not slot:
            done.findings.append(f"{terminal.id} took no order within {seconds_max:g} s and waits for nothing")
        finished, _ = await asyncio.wait((taking,), timeout=FREE_SECONDS_MAX)
    seconds = time.monotonic() - started
    done.taken_seconds.append(seconds)
    if slot:
        done.waited_for.append(f"{terminal.id}: {slot}; free after {seconds:.1f} s")
    if not finished:
        taking.cancel()
        done.findings.append(f"{terminal.id} took no order within {FREE_SECONDS_MAX:g} s")


async def _drain(shop: Shop) -> None:
    """Wait until the last orders have ended and the journals are empty."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = [journals.read(journals.path_of(shop.folder, terminal.id)) for terminal in shop.terminals]
        if not any(journal is None or journal.entries for journal in found):
            return
        await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def _shop(database_url: str, folder: Path) -> AsyncIterator[Shop]:
    database = await open_database(database_url)
    scene = await make_scene(database)
    scene.clock = clock = MovableClock()
    token = await access_token(scene, clock.now_ms(), live=False)
    with closing(NodeProcess(database_url, folder)) as node:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(5)) as session:
            service = Service(node.base_url, database, clock, scene, session, token, token)
            terminals = [await service.terminal() for _ in range(TERMINALS)]
            for terminal in terminals:
                path = journals.path_of(folder, terminal.id)
                await Journal(path, terminal.id, Secret(terminal.token), "approve:0.2s").save()
            shop = Shop(node, service, folder, terminals, await operator(service, "support"))
            await database.close()
            await asyncio.to_thread(node.start)
            shop.start_terminals()
            try:
                yield shop
            finally:
                shop.kill_terminals()
