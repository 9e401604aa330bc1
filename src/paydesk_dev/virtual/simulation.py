"""A simulation: virtual terminals that are paired with a service, process orders, and are removed at the end.

All are test terminals of one seller, in a store made for them, each at a point of sale of its own. The simulation
pairs each as a terminal, and approves its code as an operator.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from paydesk.core import runtime
from paydesk.engine.terminals.schemas import Kind
from paydesk_dev.http_client import Client, Document, Refused
from paydesk_dev.virtual.fleet import Fleet
from paydesk_dev.virtual.scripts.playlists import Playlist
from paydesk_dev.virtual.terminal.client import Pace
from paydesk_dev.virtual.terminal.network import FLAKY_KINDS

MODEL = "PAYDESK_VIRTUAL"
STORE_NAME = "Simulated terminals"
RELEASE_REASON = "The simulation that the terminal belongs to has ended."
ATTEMPTS_MAX, PAUSE_SECONDS = 5, 1.0
"""Of a request that the service cannot answer now. One that it throttles is repeated without a limit."""
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


@dataclass(frozen=True, slots=True)
class Service:
    """The service at its address for terminals, and at that for operators with the token of one.

    `wait` is called with the pause in seconds when the service is busy or throttles. It may raise `Refused` to give up.
    """

    terminals: Client
    operators: Client
    wait: Callable[[float], Awaitable[object]] = asyncio.sleep

    async def operator(self, method: str, path: str, body: Document | None = None) -> Document:
        """Send a request to the operators' interface. Raises `Refused`."""
        return await self._call(self.operators, method, f"/operator/v1{path}", body)

    async def device(self, path: str, body: Document) -> Document:
        """Send a request of a terminal that is not paired. Raises `Refused`."""
        return await self._call(self.terminals, "POST", f"/device/v1{path}", body)

    async def kind(self) -> Kind:
        """Return the kind of terminals that fits: `service` where there is no simulated acquirer for terminals.

        Raises `Refused` for an address that is not for terminals.
        """
        if not await self._has("/device/v1/hello"):
            raise Refused(
                f"{self.terminals.base_url} does not serve terminals. Name the address that does with --device-url;"
                " with `paydesk serve` it is another one than the operators'.",
                404,
            )
        return "terminal" if await self._has("/virtual/v1/acquirer/payments") else "service"

    async def _has(self, path: str) -> bool:
        """Return whether the service has the operation, which it refuses without credentials."""
        try:
            await self._call(self.terminals, "POST", path, {})
        except Refused as refused:
            if refused.status == 0:
                raise
            return refused.status != 404
        return True

    async def _call(self, client: Client, method: str, path: str, body: Document | None) -> Document:
        failures = 0
        while True:
            try:
                return await client.call(method, path, body)
            except Refused as refused:
                failures += refused.status != 429
                if refused.status not in (429, 503) or failures == ATTEMPTS_MAX:
                    raise
                pause = refused.retry_seconds or PAUSE_SECONDS
            await self.wait(pause)


class Watcher(Protocol):
    """What shows a simulation to a person."""

    def progress(self, phase: str, done: int, total: int) -> None:
        """Show how many terminals of a phase are done."""

    def busy(self, seconds: float) -> None:
        """Show for how long the service asks to wait."""

    def state(self, figures: dict[str, int]) -> None:
        """Show what the running terminals do, each second."""

    def note(self, message: str) -> None:
        """Show a message."""


class Simulation:
    """One simulation, from the first pairing to the last removal."""

    def __init__(self, service: Service, plan: Plan, watcher: Watcher) -> None:
        self._service = replace(service, wait=self._wait)
        self._plan, self._watcher = plan, watcher
        pace = Pace(poll_seconds=plan.poll_seconds)
        self._fleet = Fleet(service.terminals.base_url, plan.journals, pace, plan.seed, hidden=True)
        self._store_id: int | None = None
        self._paired: list[Document] = []
        """The terminals that were paired, as the service shows them."""
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
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), WATCH_SECONDS)
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
        names = (*OUTCOMES, *FLAKY_KINDS) if self._plan.playlist.flaky else OUTCOMES
        return {"terminals": len(fleet.terminals()), **{name: fleet.counts[name] for name in names}}

    def state(self) -> dict[str, int]:
        """Return how many terminals are connected, have an order, and wait for one; and the results by outcome."""
        fleet = self._fleet
        connected, paying = fleet.connected, fleet.paying
        state = {"connected": connected, "paying": paying, "waiting": max(0, connected - paying)}
        return state | {name: fleet.counts[name] for name in OUTCOMES if fleet.counts[name]}

    async def _pair(self) -> None:
        numbers, call = range(len(self._fleet.terminals()), self._plan.count), self._service.operator
        if not numbers:
            return
        offered = await self._service.kind()
        kind, seller_id = self._plan.kind or offered, self._plan.seller_id
        if not seller_id:
            sellers = (await call("GET", "/sellers?limit=2"))["data"]
            if len(sellers) != 1:
                hint = "Create one with `paydesk sellers create`." if not sellers else "Name one with --seller."
                raise Refused(f"The service has {'several sellers' if sellers else 'no seller'}. {hint}")
            seller_id = sellers[0]["user_id"]
        store = await call("POST", "/stores", {"seller_id": seller_id, "name": STORE_NAME})
        self._store_id = store["store_id"]
        approval = {"seller_id": seller_id, "store_id": self._store_id, "kind": kind, "live_mode": False}

        async def pair(_: int) -> None:
            if self._stop.is_set():
                return
            serial = secrets.token_hex(8).upper()
            asked = await self._service.device("/pairings", {"model": MODEL, "serial": serial})
            terminal = await call("POST", f"/pairings/{asked['user_code']}", approval)
            self._paired.append(terminal)
            await call("PATCH", f"/terminals/{terminal['id']}", {"operating_mode": "PDV"})
            received = await self._service.device("/pairings/token", {"device_code": asked["device_code"]})
            script = str(self._plan.playlist)
            await self._fleet.add(terminal["id"], received["device_token"], script, kind=kind)

        try:
            await self._each("pairing", pair, numbers)
        except Refused:
            if not self._stop.is_set():
                raise

    async def _wait(self, seconds: float) -> None:
        """Wait because the service is busy; raise `Refused` once the simulation is to end. Removals go on."""
        self._watcher.busy(seconds)
        if self._is_removing:
            await asyncio.sleep(seconds)
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
            raise Refused("The simulation ends.")

    async def _remove(self) -> None:
        """Release the terminals' orders; delete the terminals, their points of sale and the store."""
        self._is_removing = True
        kept, call = dict[str, str](), self._service.operator
        if self._store_id is None:
            return

        async def remove(terminal: Document) -> None:
            terminal_id, path = terminal["id"], f"/terminals/{terminal['id']}"
            try:
                try:
                    await call("DELETE", path)
                except Refused as refused:
                    if refused.code != "in_use":
                        raise
                    await call("POST", f"{path}/release", {"reason": RELEASE_REASON})
                    await call("DELETE", path)
                await call("DELETE", f"/pos/{terminal['pos_id']}")
                await self._fleet.remove(terminal_id)
            except Refused as refused:
                kept[terminal_id] = str(refused)

        await self._each("removing", remove, self._paired)
        if not kept:
            try:
                await call("DELETE", f"/stores/{self._store_id}")
            except Refused as refused:
                self._watcher.note(f"The store {self._store_id} was not removed: {refused}")
        for terminal_id, reason in kept.items():
            self._watcher.note(
                f"{terminal_id} was not removed: {reason} Remove it later: `paydesk terminals delete {terminal_id}`."
            )

    async def _each(self, phase: str, work: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
        """Do the work for each item, some at a time; the first failure ends it once the started ones have ended."""
        waiting = list(items)[::-1]
        total, done = len(waiting), 0

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
        for error in filter(None, results):
            raise error
