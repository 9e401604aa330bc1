"""A machine that serves Paydesk from one disk, loses its power under load, and comes up again."""

from __future__ import annotations

import asyncio
import random
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import structlog

from event_loops import turns
from faults.account import findings
from faults.disk import Disk
from faults.in_process import InProcessService
from faults.load import Client, Refresher, Till
from oauth_scene import make_scene
from paydesk.core.clock import Clock, MovableClock, SystemClock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.sqlite.database import SqliteDatabase
from service import Device, access_token
from webhooks_scene import subscribe

FILE = "paydesk.db"
TILLS, REFRESHERS = 12, 4
STILL_SECONDS_MAX = 20.0
NO_SESSION: Any = None
"""There are no sockets; using a session of them would fail."""


@dataclass
class Tally:
    """What was seen over many faults."""

    faults: int = 0
    acknowledged: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    findings: list[str] = field(default_factory=list)
    faults_with_findings: int = 0

    def add(self, other: Tally) -> None:
        """What was seen elsewhere, too."""
        self.faults += other.faults
        self.acknowledged += other.acknowledged
        self.unknown += other.unknown
        self.findings += other.findings
        self.faults_with_findings += other.faults_with_findings


class Machine:
    """The service, its disk and its clients. Made within the event loop that uses it."""

    def __init__(self, folder: Path, migrated: bytes, chance: random.Random, clock: Clock | None = None) -> None:
        self.chance = chance
        self.clock = clock or SystemClock()
        self.disk = Disk(folder, chance)
        self.disk.platters = {FILE: migrated}
        self.tally = Tally()
        self.clients: list[Client] = []
        self.ends: list[int] = []
        self.prepare: Callable[[SqliteDatabase], object] = lambda _database: None
        """What a test does to a database that was just opened."""
        self._tasks: list[asyncio.Task[None]] = []
        self._log = ExitStack()
        self.halting = False
        """Whether a client that is about to repeat a request waits, although the power is on."""
        self._serves = asyncio.Event()
        self._waiting = 0
        self._still = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._defects = self._log.enter_context(log_watched())
        self._turn_on()
        scene = await make_scene(self.database)
        scene.clock = MovableClock()
        now_ms = self.clock.now_ms()
        token = await access_token(scene, now_ms, live=False)
        self.service = InProcessService("", self.database, self.clock, scene, NO_SESSION, token, token)
        self.service.take(self.database, self.clock, Settings())
        await subscribe(self.database, "https://shop.example/hook", application_id=scene.application.application_id)
        for _ in range(TILLS):
            device = Device(self.service, await self.service.terminal(), str(uuid.uuid4()))
            self.clients.append(Till(device, self._chance(), self._again))
        for _ in range(REFRESHERS):
            tokens = await scene.tokens()
            self.clients.append(Refresher(self.service, tokens, self._chance(), self._again))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._turn_off()
        self._log.close()

    def _chance(self) -> random.Random:
        return random.Random(self.chance.random())

    def _turn_on(self) -> None:
        folder = self.disk.turn_on()
        with self.disk.in_use():
            self.database = SqliteDatabase(folder / FILE, end_process=self.ends.append)
        self.prepare(self.database)

    async def _turn_off(self) -> None:
        power = self.disk.power
        self.disk.cut()
        if power is not None:
            self.disk.abandon()
            await self.database.close()
            shutil.rmtree(power.folder)

    async def live_through_a_fault(self) -> None:
        """Serve until the configured disk failure, restart, and check everything."""
        self.serve()
        await self.until_still()
        await self._turn_off()
        self._come_up()
        await self.hold_to_account()

    def serve(self) -> None:
        """Let the clients go on."""
        self._tasks = self._tasks or [asyncio.create_task(client.run()) for client in self.clients]
        self._still.clear()
        self._serves.set()

    async def stop_and_lose_power(self) -> None:
        """End in good order, and lose the power at once: what the end tidied up may be there again."""
        await self.database.close()
        await self._turn_off()
        self._come_up()
        await self.hold_to_account()

    def _come_up(self) -> None:
        self._turn_on()
        self.service.take(self.database, self.clock, Settings())

    async def hold_to_account(self) -> None:
        """Compare what the clients, who are still, were answered with what the database holds."""
        found = [*self._defects, *await findings(self.database, self.clients)]
        self._defects.clear()
        self.tally.faults += 1
        self.tally.findings += found
        self.tally.faults_with_findings += bool(found)
        self.tally.acknowledged = sum((client.record.acknowledged for client in self.clients), Counter())
        self.tally.unknown = self.unknown

    @property
    def acknowledged(self) -> int:
        """How many requests were answered."""
        return sum(client.record.acknowledged.total() for client in self.clients)

    @property
    def unknown(self) -> int:
        """How many requests are to be repeated, or were."""
        return sum(client.record.unknown for client in self.clients)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until the clients have come so far."""
        async with asyncio.timeout(STILL_SECONDS_MAX):
            while not reached():
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.002)

    async def until_still(self) -> None:
        """Wait until every client waits for the machine; a client that failed says why."""
        still = asyncio.create_task(self._still.wait())
        done, _ = await asyncio.wait([still, *self._tasks], timeout=STILL_SECONDS_MAX, return_when="FIRST_COMPLETED")
        still.cancel()
        for task in done - {still}:
            task.result()
        assert self._still.is_set(), f"{self._waiting} of {len(self.clients)} clients noticed the fault"

    async def _again(self) -> None:
        """Before a request is repeated: while the power is off, wait until it is back."""
        await turns(5)
        power = self.disk.power
        if (power is None or not power.off) and not self.halting:
            return
        self._serves.clear()
        self._waiting += 1
        if self._waiting == len(self.clients):
            self._still.set()
        await self._serves.wait()
        self._waiting -= 1


@contextmanager
def log_watched() -> Iterator[list[str]]:
    """The lines that only a defect writes; the others are dropped, as faults make them by the thousand."""
    defects: list[str] = []

    def keep(_: object, __: str, event: MutableMapping[str, Any]) -> str:
        if event["event"] in ("unhandled_exception", "undeclared_error"):
            defects.append(str(event))
        raise structlog.DropEvent

    previous = structlog.get_config()
    structlog.configure(processors=[keep])
    try:
        yield defects
    finally:
        structlog.configure(**previous)
