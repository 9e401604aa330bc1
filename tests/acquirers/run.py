"""A run: terminals sell while nodes are killed and wires to hosts fail; then all drains, and the books are compared."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Protocol

import aiohttp
import msgspec

from acquirers import host, switches
from acquirers.kinds import ANSWER_SECONDS, KINDS
from acquirers.ledger import Ledger
from acquirers.node import Plan
from acquirers.terminals import Sale, Terminal
from acquirers.wire import FaultyWire, is_whole_http, is_whole_line
from authorize_scene import service_terminal
from faults.caller import Addresses, Caller, Tally
from faults.clocked_node import write_offset
from long_cases import CORES, slowdown
from node_process import NodeProcess
from oauth_scene import make_scene
from paydesk.core import crash_points
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database
from service import Service, access_token
from waiting import timer, until

TERMINALS = 12
FREE_SECONDS = 2 * ANSWER_SECONDS + 10
"""After a kill each terminal is free within this time, on a machine that is not busy."""
DRAINED_SECONDS_MAX = 90.0
PACE, FREE_PACE, DRAIN_PACE = 5.0, 20.0, 100.0
"""Seconds of the service for each second of the machine: during the faults, until the terminals are free, and then."""
TICK_SECONDS = 0.05
KILL_SECONDS = (0.2, 1.0)
CRASH_SECONDS_MAX = 0.7

OPEN = """
SELECT 'order', order_id, status_detail, 0 FROM orders WHERE status IN ('created', 'at_terminal')
 UNION ALL SELECT 'refund', order_id, status, next_ms FROM refunds WHERE status = 'processing'
 UNION ALL SELECT 'inquiry', order_id, reason, next_ms FROM inquiries WHERE ended_ms IS NULL
 UNION ALL SELECT 'reversal', order_id, status, next_ms FROM reversals WHERE status = 'pending'
 UNION ALL SELECT 'confirmation', order_id, status, next_ms FROM confirmations
            WHERE status IN ('provisional', 'confirming')"""

ORDERS = """
SELECT o.order_id, o.acquirer, o.status, COALESCE(o.paid_minor, 0), o.refunded_minor, COALESCE(c.status, '')
  FROM orders o LEFT JOIN confirmations c ON c.seller_id = o.seller_id AND c.order_id = o.order_id"""

DEFECTS = ("acquirer_adapter_failed", "undeclared_error", "unhandled_exception", "worker_failed", "job_failed")
REFUNDS = "SELECT refund_id, status FROM refunds"


@dataclass
class Report:
    """What a run has seen. `findings` break a promise."""

    findings: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    confirmations: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    refunds: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    free_seconds: float = 0.0


def free_seconds_max() -> float:
    """Return the time within which each terminal is free after a kill, on this machine."""
    return FREE_SECONDS * slowdown(os.getloadavg()[0], 1, CORES)


class Pace:
    """The clock of the nodes and the hosts: faster than the machine's."""

    def __init__(self, file: Path, factor: float = PACE) -> None:
        self.file, self.factor, self._offset_ms = file, factor, 0.0
        write_offset(file, 0)

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + round(self._offset_ms)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Move the clock on, until the end of the block."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()

    async def _run(self) -> None:
        before = time.monotonic()
        while True:
            await timer(TICK_SECONDS).wait()
            now = time.monotonic()
            self._offset_ms += (now - before) * (self.factor - 1) * 1000
            before = now
            write_offset(self.file, round(self._offset_ms))


@dataclass
class Cluster:
    """Nodes on one database, and what kills them."""

    nodes: list[NodeProcess]
    chance: random.Random
    kills: int = 0
    calm: asyncio.Event = field(default_factory=asyncio.Event)

    async def kill_often(self) -> None:
        """Kill one node after another, at a crash point or at any moment, and start it again."""
        while await self.rest(self.chance.uniform(*KILL_SECONDS)):
            await self.kill(self.chance.choice(self.nodes))

    async def rest(self, seconds: float) -> bool:
        """Wait; return False once all is to be calm."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.calm.wait(), seconds)
        return not self.calm.is_set()

    async def kill(self, node: NodeProcess) -> None:
        """Kill the node and start it again."""
        label = self.chance.choice((*crash_points.LABELS, *crash_points.STEP_LABELS, "", "", ""))
        if label:
            header = {"X-Crash-At": f"{label}:{self.chance.randint(1, 3)}"}
            # On a connection of its own: a request on a broken one would be repeated, and arm the node that follows.
            async with aiohttp.ClientSession() as session:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    await session.get(node.base_url + "/nothing", headers=header)
            ends = time.monotonic() + CRASH_SECONDS_MAX
            await until(lambda: time.monotonic() > ends or not node.runs())
        node.kill()
        self.kills += 1
        await asyncio.to_thread(node.start)


class Host(Protocol):
    """What a run asks of a host."""

    def ledger(self) -> Ledger:
        """Return the ledger as it is now."""


@dataclass
class Side:
    """The hosts of a run, the wires to them, and what the nodes get of them."""

    hosts: Mapping[str, Host]
    wires: list[FaultyWire]
    ports: dict[str, int]
    secret_file: str = ""


@contextlib.asynccontextmanager
async def behind_the_port(folder: Path, pace: Pace, chance: random.Random) -> AsyncIterator[Side]:
    """Serve hosts of the tests, behind an adapter of the tests."""
    del folder
    hosts = {name: host.Host(name, can, pace.now_ms, random.Random(chance.random())) for name, can in KINDS.items()}
    listener = await host.listen(hosts)
    wire = FaultyWire(listener.sockets[0].getsockname()[1], random.Random(chance.random()), is_whole_line)
    async with listener, wire.laid():
        yield Side(hosts, [wire], dict.fromkeys(hosts, wire.port))


@contextlib.asynccontextmanager
async def behind_switches(folder: Path, pace: Pace, chance: random.Random) -> AsyncIterator[Side]:
    """Serve switches of the example, behind the HTTP adapter."""
    async with switches.served(KINDS, folder, pace.now_ms) as served, contextlib.AsyncExitStack() as stack:
        wires = [FaultyWire(one.port, random.Random(chance.random()), is_whole_http) for one in served.values()]
        for wire in wires:
            await stack.enter_async_context(wire.laid())
        ports = dict(zip(served, [wire.port for wire in wires], strict=True))
        yield Side(served, wires, ports, str(switches.secret_file(folder)))


SIDES = {"port": behind_the_port, "http": behind_switches}


async def run(
    database_url: str, folder: Path, chance: random.Random, *, side: str, payments: int, nodes: int
) -> Report:
    """Sell so often on a new, migrated database; return what came of it."""
    pace, report = Pace(folder / "clock"), Report()
    async with (
        pace.running(),
        SIDES[side](folder, pace, chance) as there,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        seeds = await seeded(database_url, session)
        names = {terminal_id: name for (_, terminal_id, _), name in zip(seeds, cycle(KINDS), strict=False)}
        plan = Plan(str(pace.file), there.ports, names, there.secret_file)
        async with started(database_url, folder, nodes, msgspec.json.encode(plan).decode()) as processes:
            cluster = Cluster(processes, random.Random(chance.random()))
            addresses = Addresses([node.base_url for node in processes], random.Random(chance.random()))
            tally, give_up = Tally(), asyncio.Event()
            terminals = []
            for token, terminal_id, device_token in seeds:
                caller = Caller(session, addresses, tally, random.Random(chance.random()), give_up)
                terminals.append(Terminal(caller, terminal_id, device_token, token, pace.now_ms))
            await _sell(cluster, terminals, there.wires, pace, payments, report)
            await _drain(database_url, report)
            report.faults, report.kills = sum((wire.counts for wire in there.wires), Counter()), cluster.kills
            report.findings += tally.faults
            report.findings += [line for node in processes for line in _defects(node)]
            for node in processes:
                await asyncio.to_thread(node.end)
        ledgers = [one.ledger() for one in there.hosts.values()]
    database = await open_database(database_url)
    try:
        report.findings += [str(finding) for finding in await check.check(database, pace.now_ms())]
        sales = {sale.order_id: sale for terminal in terminals for sale in terminal.sales}
        await _compare(database, ledgers, sales, report)
    finally:
        await database.close()
    return report


async def _sell(
    cluster: Cluster, terminals: list[Terminal], wires: list[FaultyWire], pace: Pace, payments: int, report: Report
) -> None:
    """Sell under faults; then kill once more, mend everything, and measure until when each terminal is free."""
    begun, numbers = asyncio.Event(), iter(range(payments))

    def counted() -> Iterator[int]:
        yield from numbers
        begun.set()

    selling = [asyncio.create_task(terminal.run(counted())) for terminal in terminals]
    breaking = [asyncio.create_task(cluster.kill_often()), asyncio.create_task(_break_off(cluster, wires))]
    try:
        await asyncio.wait([asyncio.create_task(begun.wait()), *breaking], return_when=asyncio.FIRST_COMPLETED)
        cluster.calm.set()
        await asyncio.gather(*breaking)
        await asyncio.gather(*[wire.mend() for wire in wires])
        await cluster.kill(cluster.nodes[0])
        pace.factor, since = FREE_PACE, time.monotonic()
        done, held = await asyncio.wait(selling, timeout=free_seconds_max())
        report.free_seconds = time.monotonic() - since
        pace.factor = DRAIN_PACE
        report.findings += [
            f"{terminal.terminal_id} is not free after {report.free_seconds:.1f} s: {terminal.sales[-1:]}"
            for terminal, task in zip(terminals, selling, strict=True)
            if task in held
        ]
        for task in [*done, *[task for terminal in terminals for task in terminal.refunding]]:
            await task
    finally:
        for task in (*selling, *breaking):
            task.cancel()


async def _break_off(cluster: Cluster, wires: list[FaultyWire]) -> None:
    """Refuse connections to the hosts now and then."""
    while await cluster.rest(cluster.chance.uniform(1.0, 4.0)):
        await cluster.chance.choice(wires).break_off()


async def _drain(database_url: str, report: Report) -> None:
    """Wait until nothing is open; what is still open after long is a finding."""
    ends, rows = time.monotonic() + DRAINED_SECONDS_MAX, [("", "", "", 0)]
    database = await open_database(database_url, exclusive=False)
    try:
        while rows and time.monotonic() < ends:
            rows = [tuple(row) for row in await database.read(lambda tx: tx.all(OPEN))]
            await asyncio.sleep(0.1)
    finally:
        await database.close()
    report.findings += [f"open for ever: {row}" for row in rows]


async def _compare(database: Database, ledgers: list[Ledger], sales: dict[str, Sale], report: Report) -> None:
    """Compare the hosts' ledgers with the orders, and both with what the terminals said."""
    rows = await database.read(lambda tx: tx.all(ORDERS))
    refunds = dict([tuple(row) for row in await database.read(lambda tx: tx.all(REFUNDS))])
    known = {f"PAY{row[0][3:]}" for row in rows}
    for ledger in ledgers:
        counts = Counter((entry.kind, entry.payment_id) for entry in ledger.entries if entry.kind != "refund")
        report.findings += [
            *(f"{ledger.name}: {fault}" for fault in ledger.faults),
            *(f"{ledger.name}: {one} is provisional for ever" for one in ledger.provisional),
            *(f"{ledger.name}: {one} was charged, but has no order" for _, one in counts if one not in known),
            *(f"{ledger.name}: {one} was made {count} times" for one, count in counts.items() if count > 1),
        ]
    by_name = {ledger.name: ledger for ledger in ledgers}
    for order_id, name, status, paid_minor, refunded_minor, confirmation in rows:
        sale = sales.get(order_id)
        report.statuses[status] += 1
        report.confirmations[confirmation] += 1
        # A refused confirmation was handed over and is not paid: the host has undone it by itself.
        expected_minor = paid_minor - refunded_minor if confirmation != "refused" else 0
        net_minor = by_name[name].net_minor(f"PAY{order_id[3:]}")
        what = f"{order_id} at {name}, {status}, {confirmation or 'final'}, {sale and sale.behavior}"
        if net_minor != expected_minor:
            report.findings.append(f"{what}: {net_minor} is charged, not {expected_minor}")
        if sale is None or (KINDS[name].needs_confirmation and paid_minor and not sale.is_approved):
            report.findings.append(f"{what}: its terminal did not approve it")
        if confirmation == "refused" and KINDS[name].at_deadline != "undoes":
            report.findings.append(f"{what}: refused by a host that confirms")
        for refund_id in sale.refunds if sale else ():
            report.refunds[refunds[refund_id]] += 1
            if refunds[refund_id] != "processed" and confirmation != "refused":
                report.findings.append(f"{what}: {refund_id} is {refunds[refund_id]}")


async def seeded(database_url: str, session: aiohttp.ClientSession) -> list[tuple[str, str, str]]:
    """Write the terminals into the database; return an access token, the terminal's id and its token for each."""
    database = await open_database(database_url)
    try:
        scene = await make_scene(database)
        scene.clock = clock = MovableClock()
        token = await access_token(scene, clock.now_ms(), live=True)
        service = Service("", database, clock, scene, session, token, token)
        terminals = [await service_terminal(service, live=True) for _ in range(TERMINALS)]
        return [(token, terminal.id, terminal.token) for terminal in terminals]
    finally:
        await database.close()


@contextlib.asynccontextmanager
async def started(database_url: str, folder: Path, nodes: int, plan: str) -> AsyncIterator[list[NodeProcess]]:
    """Start nodes, and kill those that still run at the end of the block."""
    processes = [NodeProcess(database_url, folder, module="acquirers.node") for _ in range(nodes)]
    try:
        for node in processes:
            node.arguments.append(plan)
            await asyncio.to_thread(node.start)
        yield processes
    finally:
        for node in processes:
            node.close()


def _defects(node: NodeProcess) -> list[str]:
    """Return the lines of the node's log that say of a defect."""
    return [
        line[:600]
        for line in node.log.read_text().splitlines()
        if "Traceback" in line or any(f'"event":"{event}"' in line.replace(" ", "") for event in DEFECTS)
    ]
