"""A run: nodes under load, broken again and again, healed at the end, drained, and held against the promises."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from faults import breaking, checker, final_state, inbox
from faults.applications import Application
from faults.breaking import CLOCK_MS_MAX, Fault
from faults.caller import Addresses, Caller, Tally
from faults.cluster import Cluster, cluster
from faults.inbox import Inbox
from faults.records import Records
from faults.scene import Cast, cast
from faults.terminals import Terminal
from faults.tills import Till
from paydesk.engine.invariants import check
from paydesk.engine.payments.capabilities import NO_CAPABILITIES
from paydesk.engine.payments.jobs import LEASE_MARGIN_SECONDS
from paydesk.engine.terminals.schemas import Kind
from paydesk.platform.storage.connect import open_database
from postgres_server import PostgresServer

DRAIN_AHEAD_MS = 180_000
"""At the end every clock goes so far ahead: claims of nodes that died run out, retries and expiries come due."""
FINISH_SECONDS_MAX = 2 * NO_CAPABILITIES.answer_seconds + LEASE_MARGIN_SECONDS + CLOCK_MS_MAX / 1000 + 20
"""A worker that is killed may hold its lease for so long, longer where its clock was ahead: repeats wait for it."""
FURTHER_AHEAD_MS, PATIENCE_SECONDS = 270_000, 10.0
"""What was asked for in vain once more is asked for again after that: as far as a clock may go without being a jump."""
DRAIN_SECONDS_MAX = 90.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is to be like. A second till at a terminal competes with the first."""

    seconds: float
    faults: tuple[Fault, ...]
    seed: int
    nodes: int = 3
    terminals: int = 32
    second_tills: int = 4
    applications: int = 8
    kinds: tuple[Kind, ...] = ("terminal",)
    """Of the terminals, in turn."""

    @property
    def wires(self) -> bool:
        """Whether there are wires to spoil."""
        return any(fault.strike is breaking.spoil for fault in self.faults)


@dataclass
class Run:
    """A run as it goes, and what it came to."""

    plan: Plan
    phase: str = "starts"
    tally: Tally = field(default_factory=Tally)
    records: Records = field(default_factory=Records)
    counts: dict[str, int] = field(default_factory=dict)
    deliveries: Counter[str] = field(default_factory=Counter)
    """How the notifications stand in the end."""
    violations: list[str] = field(default_factory=list)


Load = Callable[[Run, Cluster, Cast, random.Random], Awaitable[None]]


async def run(
    plan: Plan,
    database_url: str,
    folder: Path,
    server: PostgresServer | None = None,
    started: Callable[[Run], None] = lambda _: None,
    load: Load | None = None,
) -> Run:
    """Do it all. `started` is given the run, whose figures grow while it goes; `load` takes the clients' place."""
    this, chance = Run(plan), random.Random(plan.seed)
    started(this)
    async with inbox.listening(this.records, random.Random(chance.random())) as receiver:
        everybody = await cast(
            database_url,
            receiver,
            chance,
            devices=plan.terminals,
            applications=plan.applications,
            kinds=plan.kinds,
        )
        this.records.sellers = {seed.terminal_id: seed.seller for seed in everybody.terminals}
        async with cluster(
            database_url, folder, nodes=plan.nodes, wires=plan.wires, chance=chance, server=server
        ) as nodes:
            this.counts = nodes.counts
            await (load or _load)(this, nodes, everybody, chance)
            await _drain(this, nodes, receiver, database_url)
            this.violations += await _ended(nodes)
    this.phase = "checks"
    this.violations += await _violations_of(this, database_url)
    this.phase = "done"
    return this


async def _load(this: Run, nodes: Cluster, everybody: Cast, chance: random.Random) -> None:
    """Clients and faults together, then the faults end, and the clients bring to an end what they began."""
    stop, give_up = asyncio.Event(), asyncio.Event()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        # A retry by the library would not be counted.
        session._retry_connection = False
        addresses = Addresses(nodes.addresses, random.Random(chance.random()))

        def caller() -> Caller:
            return Caller(session, addresses, this.tally, random.Random(chance.random()), give_up)

        tills, terminals, applications = _clients(this, everybody, caller, stop)
        everyone: list[Till | Terminal | Application] = [*tills, *terminals, *applications]
        clients = [asyncio.create_task(one.run()) for one in everyone]
        this.phase = "breaks"
        faults = [
            asyncio.create_task(breaking.keep_breaking(fault, nodes, random.Random(chance.random())))
            for fault in this.plan.faults
        ]
        try:
            await let_run(this.plan.seconds, clients + faults)
            stop.set()
            nodes.calm.set()
            this.phase = "heals"
            await asyncio.gather(*faults)
            await nodes.heal()
            await finish(clients, give_up)
            await asyncio.gather(*(one.check() for one in applications))
        finally:
            for task in clients + faults:
                task.cancel()


def _clients(
    this: Run, everybody: Cast, caller: Callable[[], Caller], stop: asyncio.Event
) -> tuple[list[Till], list[Terminal], list[Application]]:
    at_tills = [*everybody.terminals, *everybody.terminals[: this.plan.second_tills]]
    return (
        [Till(caller(), this.records, seed, stop) for seed in at_tills],
        [Terminal(caller(), this.records, seed, stop) for seed in everybody.terminals],
        [Application(caller(), this.records, seed, stop) for seed in everybody.applications],
    )


async def let_run(seconds: float, tasks: list[asyncio.Task[None]]) -> None:
    """Let them run; one that fails fails the run."""
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()


async def finish(clients: list[asyncio.Task[None]], give_up: asyncio.Event) -> None:
    """Everything runs again: a client that still waits then has found a violation."""
    await asyncio.wait(clients, timeout=FINISH_SECONDS_MAX)
    give_up.set()
    await asyncio.gather(*clients)


async def _drain(this: Run, nodes: Cluster, receiver: Inbox, database_url: str) -> None:
    """Wait until no notification is open, and no order that ran out of time."""
    this.phase = "drains"
    receiver.calm()
    for node in nodes.nodes:
        node.move_clock(DRAIN_AHEAD_MS)
    began = time.monotonic()
    deadline = began + DRAIN_SECONDS_MAX
    quiet = undelivered = overdue = 0
    while quiet < 3 and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        undelivered, overdue = await final_state.unsettled(database_url)
        quiet = 0 if undelivered or overdue else quiet + 1
        if time.monotonic() > began + PATIENCE_SECONDS:
            for node in nodes.nodes:
                node.move_clock(FURTHER_AHEAD_MS)
    if undelivered:
        this.violations.append(f"{undelivered} notifications did not come to their end")
    if overdue:
        this.violations.append(f"{overdue} orders, refunds, inquiries or reversals did not come to their end")


async def _ended(nodes: Cluster) -> list[str]:
    """Stop the nodes in order; what one of them says of a defect is a violation too."""
    statuses = await asyncio.gather(*(node.end() for node in nodes.nodes))
    ends = [
        f"{node.name} ended with {status} when it was asked to"
        for node, status in zip(nodes.nodes, statuses, strict=True)
        if status != 0
    ]
    return ends + [line for node in nodes.nodes for line in checker.defects(node.name, node.log.read_text())]


async def _violations_of(this: Run, database_url: str) -> list[str]:
    database = await open_database(database_url)
    try:
        facts = await final_state.read(database, this.records)
        found = await check.check(database)
    finally:
        await database.close()
    this.deliveries.update(facts.deliveries.values())
    said = [*this.tally.faults, *this.records.violations]
    return [*said, *checker.violations(this.records, facts), *(f"invariants: {one}" for one in found)]
