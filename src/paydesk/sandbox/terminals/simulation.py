"""A simulation: virtual terminals that are paired with a service, process orders, and are removed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from paydesk.core import runtime
from paydesk.sandbox.http_client import Refused
from paydesk.sandbox.terminals.client import Pace
from paydesk.sandbox.terminals.fleet import Fleet
from paydesk.sandbox.terminals.network import REQUEST_FAULTS
from paydesk.sandbox.terminals.pairing import Kind, Paired, Pairing, Service
from paydesk.sandbox.terminals.playlists import Playlist

AT_ONCE = 8
"""How many terminals are paired, connected or removed at a time."""
WATCH_SECONDS = 1.0
LAST_ORDERS_SECONDS_MAX = 5.0
"""How long orders in progress may take when the simulation ends."""
OUTCOMES = ("approved", "declined", "canceled", "unknown")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to simulate. `journals` is a folder, or None for journals in memory; `seed` repeats a flaky network."""

    count: int
    playlist: Playlist
    seller_id: int | None = None
    kind: Kind | None = None
    seed: int | None = None
    poll_seconds: int = 25
    journals: Path | None = None
    keep: bool = False


class Watcher(Protocol):
    """What shows a simulation to a person."""

    def progress(self, phase: str, done: int, total: int) -> None:
        """So many terminals of a phase are done."""

    def busy(self, seconds: float) -> None:
        """The service asks to wait so long."""

    def state(self, figures: dict[str, int]) -> None:
        """What the running terminals do, each second."""

    def note(self, message: str) -> None:
        """Something that the person should know."""


class Simulation:
    """One simulation, from the first pairing to the last removal."""

    def __init__(self, service: Service, plan: Plan, watcher: Watcher) -> None:
        self._service = replace(service, wait=self._wait)
        self._plan, self._watcher = plan, watcher
        pace = Pace(poll_seconds=plan.poll_seconds)
        self._fleet = Fleet(service.terminals.base_url, plan.journals, pace, plan.seed, hidden=True)
        self._pairing: Pairing | None = None
        self._stop, self._is_removing = asyncio.Event(), False

    async def run(self, stop: asyncio.Event) -> dict[str, int]:
        """Run until `stop` is set; return the totals. Raises `Refused`, after removing what was paired."""
        self._stop = stop
        await self._fleet.start()
        try:
            for terminal_id in self._fleet.terminals():
                await self._fleet.find(terminal_id).set_script(str(self._plan.playlist))
            if self._fleet.terminals():
                self._watcher.note(f"{len(self._fleet.terminals())} terminals continue from their journals.")
            await self._pair()
            while not stop.is_set():
                self._watcher.state(self.state())
                await _within(WATCH_SECONDS, stop.wait())
            # A permit would keep its terminal from being removed.
            deadline = runtime.monotonic() + LAST_ORDERS_SECONDS_MAX
            while self._fleet.paying and runtime.monotonic() < deadline:  # noqa: ASYNC110 - such a sum has no event
                await asyncio.sleep(WATCH_SECONDS / 10)
            return self.totals()
        finally:
            await self._fleet.stop()
            if not self._plan.keep:
                await self._remove()

    def totals(self) -> dict[str, int]:
        """Return the number of terminals, the results by outcome, and the faults of a flaky network by name."""
        fleet = self._fleet
        names = (*OUTCOMES, *REQUEST_FAULTS) if self._plan.playlist.flaky else OUTCOMES
        return {"terminals": len(fleet.terminals()), **{name: fleet.counts[name] for name in names}}

    def state(self) -> dict[str, int]:
        """Return how many terminals are connected, have an order, and wait for one; and the results by outcome."""
        fleet = self._fleet
        connected, paying = fleet.connected, fleet.paying
        state = {"connected": connected, "paying": paying, "waiting": max(0, connected - paying)}
        return state | {name: fleet.counts[name] for name in OUTCOMES if fleet.counts[name]}

    async def _pair(self) -> None:
        numbers = range(len(self._fleet.terminals()), self._plan.count)
        if not numbers:
            return
        offered = await self._service.kind()
        kind = self._plan.kind or offered
        seller_id = self._plan.seller_id
        if not seller_id:
            sellers = (await self._service.operator("GET", "/sellers?limit=2"))["data"]
            if len(sellers) != 1:
                hint = "Create one with `paydesk sellers create`." if not sellers else "Name one with --seller."
                raise Refused(f"The service has {'several sellers' if sellers else 'no seller'}. {hint}")
            seller_id = sellers[0]["user_id"]
        self._pairing = Pairing(self._service, seller_id, kind)
        await self._pairing.open()

        async def add(_: int) -> None:
            assert self._pairing is not None, "it was opened"
            if self._stop.is_set():
                return
            terminal_id, device_token = await self._pairing.pair()
            script = str(self._plan.playlist)
            await self._fleet.add(terminal_id, device_token, script, kind=kind)

        try:
            await self._each("pairing", add, numbers)
        except Refused:
            if not self._stop.is_set():
                raise

    async def _wait(self, seconds: float) -> None:
        """Wait because the service is busy; raise `Refused` once the simulation is to end. Removals go on."""
        self._watcher.busy(seconds)
        if self._is_removing:
            await asyncio.sleep(seconds)
            return
        await _within(seconds, self._stop.wait())
        if self._stop.is_set():
            raise Refused("The simulation ends.")

    async def _remove(self) -> None:
        self._is_removing = True
        kept: dict[str, str] = {}
        pairing = self._pairing
        if pairing is None or pairing.store_id is None:
            return

        async def remove(terminal: Paired) -> None:
            try:
                await pairing.remove(terminal)
                await self._fleet.remove(terminal.terminal_id)
            except Refused as refused:
                kept[terminal.terminal_id] = str(refused)

        await self._each("removing", remove, pairing.terminals)
        if not kept:
            try:
                await pairing.close()
            except Refused as refused:
                self._watcher.note(f"The store {pairing.store_id} was not removed: {refused}")
        for terminal_id, reason in kept.items():
            self._watcher.note(
                f"{terminal_id} was not removed: {reason} Remove it later: `paydesk terminals delete {terminal_id}`."
            )

    async def _each(self, phase: str, work: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
        """Do the work for each item, some at a time; the first failure ends it once the started ones have ended."""
        waiting = list(items)
        total, done = len(waiting), 0
        waiting.reverse()

        async def worker() -> None:
            nonlocal done
            while waiting:
                try:
                    await work(waiting.pop())
                except BaseException:
                    waiting.clear()
                    raise
                done += 1
                self._watcher.progress(phase, done, total)

        results = await asyncio.gather(*(worker() for _ in range(AT_ONCE)), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result


async def _within(seconds: float, work: Awaitable[object]) -> None:
    try:
        await asyncio.wait_for(work, seconds)
    except TimeoutError:
        return
