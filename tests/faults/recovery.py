"""A virtual terminal is killed at one step of a payment and the service at another: what becomes of the order.

The terminal is the real one. Killed, it loses its memory and keeps its journal; the service is a process of its own,
and is killed by SIGKILL before or after it commits. Both are started again: the service at once, the terminal at once
or after its permit has expired, by the clock of the service.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import aiohttp

from faults.clocked_node import LOOKS_OFTEN, write_offset
from faults.crashing_terminal import Crashes, CrashingClient, TerminalStep
from faults.virtual_terminals import PACE
from node_process import MOVES_ALL_CLOCKS, NodeProcess
from oauth_scene import make_scene
from paydesk.core.clock import MovableClock
from paydesk.core.secrets import Secret
from paydesk.engine.invariants import check
from paydesk.engine.orders.status import FINAL
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database
from paydesk_dev.virtual import journal as journals
from paydesk_dev.virtual.journal import Journal
from paydesk_dev.virtual.terminal.terminal import Terminal
from service import Service, access_token
from service import Terminal as Seed

ServiceStep = Literal[
    "none",
    "ack before commit",
    "ack after commit",
    "permit before commit",
    "permit after commit",
    "result before commit",
    "result after commit",
]
TERMINAL_STEPS: tuple[TerminalStep, ...] = get_args(TerminalStep)
SERVICE_STEPS: tuple[ServiceStep, ...] = get_args(ServiceStep)
AWAY_SECONDS = 70
"""Longer than a permit, shorter than two minutes after it."""


CELL_SECONDS_MAX = 60.0
NOT_FOUND_SECONDS = 120
BUSY_SECONDS = 30
"""What a busy machine may take to start the killed ones again; what holds a terminal holds it for 40 s or longer."""
OUTCOME = """
SELECT o.status, o.payment_status_detail, o.updated_ms - o.created_ms,
       (SELECT COUNT(*) FROM simulator_payments p
         WHERE p.seller_id = o.seller_id AND p.payment_id = $3 AND p.outcome = 'approved' AND p.reversed_ms IS NULL)
  FROM orders o WHERE o.seller_id = $1 AND o.order_id = $2"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table. `away_seconds`: how long the killed terminal stays away."""

    terminal: TerminalStep
    service: ServiceStep = "none"
    away_seconds: int = 0

    @property
    def expected(self) -> tuple[str, int]:
        """The order's state and the number of charges, as the terminal protocol says (section 2)."""
        never_sent = self.away_seconds and self.terminal in ("authorizing sent", "permit journalled")
        return ("failed/processing_error", 0) if never_sent else ("processed/accredited", 1)

    @property
    def is_permitted(self) -> bool:
        """Return whether the terminal dies after its permit was committed."""
        return TERMINAL_STEPS.index(self.terminal) >= TERMINAL_STEPS.index("authorizing sent")

    @property
    def waits_for_the_acquirer(self) -> bool:
        """Return whether the acquirer alone knows that it was not asked, and says so after `NOT_FOUND_SECONDS`."""
        return self.terminal == "permit journalled" and self.away_seconds > 0

    @property
    def seconds_max(self) -> int:
        """How long the order may be live."""
        return (NOT_FOUND_SECONDS if self.waits_for_the_acquirer else self.away_seconds) + BUSY_SECONDS


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a cell's order: its state, its charges at the acquirer, and how long it held the terminal."""

    cell: Cell
    state: str
    charges: int
    held_seconds: float

    @property
    def faults(self) -> list[str]:
        """Return what is not as expected."""
        faults = []
        if (self.state, self.charges) != self.cell.expected:
            faults.append(f"{self.cell}: {self.state}, {self.charges} charges; expected {self.cell.expected}")
        if self.held_seconds > self.cell.seconds_max:
            faults.append(f"{self.cell}: the terminal was held for {self.held_seconds:.0f} s")
        return faults


@dataclass
class Bench:
    """A node, and terminals whose journals are in a folder."""

    node: NodeProcess
    service: Service
    folder: Path
    clock_file: Path
    http: aiohttp.ClientSession
    moved_ms: int = 0
    faults: list[str] = field(default_factory=list)

    def move_clock(self, seconds: int) -> None:
        """Move the node's clock ahead."""
        self.moved_ms += seconds * 1000
        write_offset(self.clock_file, self.moved_ms)

    async def play(self, cell: Cell, seed: Seed) -> str:
        """Kill both as the cell says, start them again until the order has ended, and return the order's id."""
        if cell.away_seconds:
            # A node that has seen its clock jump by more than 5 min in all refuses requests.
            self.node.kill()
            await asyncio.to_thread(self.node.start)
        crashes = Crashes(cell.terminal, cell.service)
        path = journals.path_of(self.folder, seed.id)
        await Journal(path, seed.id, Secret(seed.token), "approve:0s").save()
        terminal = await self._start(path, crashes)
        order_id = str((await self.service.create(seed)).body["id"])
        try:
            async with asyncio.timeout(CELL_SECONDS_MAX):
                terminal = await self._until_ended(cell, crashes, terminal, path, order_id)
        except TimeoutError:
            self.faults.append(f"{cell}: the order or the journal did not end: {path.read_text()}")
        finally:
            await terminal.stop()
        is_paid = cell.expected[1] and not cell.away_seconds
        if crashes.terminal_step != "none" or (is_paid and crashes.service_step != "none"):
            self.faults.append(f"{cell}: the terminal or the service was never killed")
        return order_id

    async def _until_ended(
        self, cell: Cell, crashes: Crashes, terminal: Terminal, path: Path, order_id: str
    ) -> Terminal:
        back: int | None = None
        while not await self._has_ended(order_id, path):
            if not self.node.runs():
                await asyncio.to_thread(self.node.start)
            if crashes.died.is_set():
                await terminal.stop()
                crashes.died.clear()
                await self._stay_away(cell, order_id)
                back, terminal = crashes.polls, await self._start(path, crashes)
            is_back = back is not None and crashes.polls > back
            if cell.waits_for_the_acquirer and is_back and await self._is_in_doubt(order_id):
                # In other cells the order is in doubt only until the terminal reports, however busy the machine is.
                self.move_clock(NOT_FOUND_SECONDS - cell.away_seconds)
                back = None
            await asyncio.sleep(0.02)
        return terminal

    async def _stay_away(self, cell: Cell, order_id: str) -> None:
        """Move the clock past the permit, if there is one, and wait until the node has seen that it is over."""
        if cell.away_seconds:
            self.move_clock(cell.away_seconds)
            while cell.is_permitted and (await self._state(order_id))[1] in ("", "at_terminal"):
                if not self.node.runs():
                    await asyncio.to_thread(self.node.start)
                await asyncio.sleep(0.01)

    async def _has_ended(self, order_id: str, path: Path) -> bool:
        journal = journals.read(path)
        assert journal is not None
        return not journal.entries and (await self._state(order_id))[0] in ("processed", *FINAL)

    async def _is_in_doubt(self, order_id: str) -> bool:
        return (await self._state(order_id))[1] == "check_on_terminal"

    async def _state(self, order_id: str) -> tuple[str, str]:
        """Return the order's status and detail, which are empty if the node does not answer."""
        with suppress(aiohttp.ClientError, TimeoutError):
            reply = await self.service.request("GET", f"/v1/orders/{order_id}")
            return (reply.body["status"], reply.body["status_detail"]) if reply.status == 200 else ("", "")
        return "", ""

    async def _start(self, path: Path, crashes: Crashes) -> Terminal:
        journal = journals.read(path)
        assert journal is not None
        client = CrashingClient(self.http, self.node.base_url, journal, self.service.seller_id, crashes)
        terminal = Terminal(journal, lambda: client, PACE)
        terminal.start()
        return terminal


async def recover(
    cells: Iterable[Cell], database_url: str, folder: Path, *, seen: Callable[[], object] = lambda: None
) -> tuple[list[Outcome], list[str]]:
    """Play the cells on a new, migrated database; return what became of each, and what is not as it must be."""
    cells, orders = list(cells), dict[Cell, str]()
    async with _bench(database_url, folder, len(cells)) as (bench, seeds):
        for cell, seed in zip(cells, seeds, strict=True):
            orders[cell] = await bench.play(cell, seed)
            seen()
        seller_id = bench.service.seller_id
        await asyncio.to_thread(bench.node.end)
    database = await open_database(database_url)
    try:
        outcomes = [await _outcome(database, seller_id, cell, order_id) for cell, order_id in orders.items()]
        broken = [str(finding) for finding in await check.check(database)]
    finally:
        await database.close()
    return outcomes, [*bench.faults, *broken, *(fault for outcome in outcomes for fault in outcome.faults)]


@asynccontextmanager
async def _bench(database_url: str, folder: Path, terminals: int) -> AsyncIterator[tuple[Bench, list[Seed]]]:
    database = await open_database(database_url)
    scene = await make_scene(database)
    scene.clock = clock = MovableClock()
    token = await access_token(scene, clock.now_ms(), live=False)
    variables: dict[str, Any] = {MOVES_ALL_CLOCKS: "1", LOOKS_OFTEN: "1"}
    with closing(NodeProcess(database_url, folder, module="faults.clocked_node", **variables)) as node:
        clock_file = folder / "clock"
        write_offset(clock_file, 0)
        node.arguments.append(str(clock_file))
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(10)) as session:
            service = Service(node.base_url, database, clock, scene, session, token, token)
            seeds = [await service.terminal() for _ in range(terminals)]
            await database.close()
            await asyncio.to_thread(node.start)
            yield Bench(node, service, folder, clock_file, session), seeds


async def _outcome(database: Database, seller_id: int, cell: Cell, order_id: str) -> Outcome:
    row = await database.read(lambda tx: tx.one(OUTCOME, seller_id, order_id, f"PAY{order_id[3:]}"))
    assert row is not None
    return Outcome(cell, f"{row[0]}/{row[1]}", row[3], row[2] / 1000)
