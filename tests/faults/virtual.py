"""Thousands of virtual terminals behind a flaky network, and tills that create orders across them at a steady rate."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from faults import chaos
from faults.applications import Application
from faults.caller import Addresses, Caller
from faults.chaos import Plan, Run
from faults.cluster import Cluster
from faults.records import Records
from faults.scene import Cast, TerminalSeed
from faults.tills import Till
from paydesk_dev.virtual.fleet import Fleet
from paydesk_dev.virtual.scripts import playlists
from paydesk_dev.virtual.scripts.playlists import Playlist
from paydesk_dev.virtual.terminal.client import Pace

AT_ONCE = 50
"""How many terminals say hello at a time."""
LOOK_SECONDS = 1.0
"""The pause between two looks of a till at its order."""
STEADY_SECONDS = 20.0
"""How long terminals may take to end their orders once the network is steady."""


@dataclass(frozen=True, slots=True)
class Shop:
    """How many orders a second are created across all terminals, and what the terminals do with them."""

    rate: float
    playlist: str
    flaky: float


class PacedTill(Till):
    """A till that waits for its turn before each sale."""

    def __init__(
        self, caller: Caller, records: Records, seed: TerminalSeed, stop: asyncio.Event, turns: asyncio.Semaphore
    ) -> None:
        super().__init__(caller, records, seed, stop)
        self.look_seconds, self._turns = LOOK_SECONDS, turns

    async def _sale(self) -> None:
        turn, stop = asyncio.ensure_future(self._turns.acquire()), asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait((turn, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            turn.cancel()
            stop.cancel()
        if not self.stop.is_set():
            await super()._sale()


async def run(
    plan: Plan, shop: Shop, database_url: str, folder: Path, started: Callable[[Run], None] = lambda _: None
) -> Run:
    """Do it all; afterwards the faults of the network are among the counts."""

    async def load(this: Run, nodes: Cluster, everybody: Cast, chance: random.Random) -> None:
        async with _terminals(this, nodes, everybody, shop):
            await _sell(this, nodes, everybody, chance, shop.rate)

    return await chaos.run(plan, database_url, folder, started=started, load=load)


@contextlib.asynccontextmanager
async def _terminals(this: Run, nodes: Cluster, everybody: Cast, shop: Shop) -> AsyncIterator[None]:
    """Run the terminals; at the end the network is steady, and they end their orders."""
    fleet = Fleet(nodes.addresses[0], None, Pace(poll_seconds=25), this.plan.seed)
    await fleet.start()
    playlist = playlists.parse(shop.playlist)
    waiting = list(enumerate(everybody.terminals))

    async def add() -> None:
        while waiting:
            number, seed = waiting.pop()
            # Each starts at another place of the list, so that all that is on it happens all the time.
            first = number % len(playlist.parts)
            script = str(Playlist(playlist.parts[first:] + playlist.parts[:first], shop.flaky))
            await fleet.add(seed.terminal_id, seed.device_token, script, kind=seed.kind)

    try:
        await asyncio.gather(*(add() for _ in range(AT_ONCE)))
        yield
        await asyncio.gather(*(fleet.find(terminal_id).set_script(shop.playlist) for terminal_id in fleet.terminals()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STEADY_SECONDS):
                while fleet.paying:  # noqa: ASYNC110 - all terminals together have no event
                    await asyncio.sleep(0.1)
        for name, count in fleet.counts.items():
            this.counts[f"terminals: {name}"] = count
    finally:
        await fleet.stop()


async def _sell(this: Run, nodes: Cluster, everybody: Cast, chance: random.Random, rate: float) -> None:
    """Create orders for as long as planned, then let the tills end what they began."""
    stop, give_up, turns = asyncio.Event(), asyncio.Event(), asyncio.Semaphore(0)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        session._retry_connection = False  # A retry by the library would not be counted.
        addresses = Addresses(nodes.addresses, random.Random(chance.random()))

        def caller() -> Caller:
            return Caller(session, addresses, this.tally, random.Random(chance.random()), give_up)

        tills = [PacedTill(caller(), this.records, seed, stop, turns) for seed in everybody.terminals]
        applications = [Application(caller(), this.records, seed, stop) for seed in everybody.applications]
        everyone: list[Till | Application] = [*tills, *applications]
        clients = [asyncio.create_task(one.run()) for one in everyone]
        pacing = asyncio.create_task(_pace(rate, turns))
        this.phase = "breaks"
        try:
            await chaos.let_run(this.plan.seconds, [*clients, pacing])
            stop.set()
            this.phase = "heals"
            await chaos.finish(clients, give_up)
            await asyncio.gather(*(one.check() for one in applications))
        finally:
            for task in (*clients, pacing):
                task.cancel()


async def _pace(rate: float, turns: asyncio.Semaphore) -> None:
    """Give out that many turns a second, regardless of earlier ones."""
    loop = asyncio.get_running_loop()
    began, given = loop.time(), 0
    while True:
        due = int((loop.time() - began) * rate)
        for _ in range(due - given):
            turns.release()
        given = due
        await asyncio.sleep(1 / rate)
