"""A virtual terminal with the script `manual` on a running service, and a person who uses it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from authorize_scene import SET_KIND
from paydesk.platform.storage.database import Database
from paydesk_dev.faults.active import Faults
from paydesk_dev.virtual.fleet import Fleet
from paydesk_dev.virtual.terminal.actions import Action, ActionName
from paydesk_dev.virtual.terminal.client import Pace
from paydesk_dev.virtual.terminal.panel import Panel
from paydesk_dev.virtual.terminal.screens import ROWS, Screen
from service import Service, Terminal, running
from skipped_waits import skipped_waits
from waiting import HANGS_SECONDS

OUTCOME_SECONDS = 3_600.0
"""How long an outcome is shown after `outcomes_stay`."""
QUICK = Pace(backoff_seconds=(0.02, 0.05, 0.1), authorizing_seconds=0, reboot_seconds=0)
LEDGER = "SELECT payment_id, amount_minor, outcome FROM simulator_payments ORDER BY created_ms"


def outcomes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let virtual terminals show an outcome until the next order, or until time is moved."""
    for name, row in ROWS.items():
        if row.stage in ("outcome", "end") and row.seconds is not None:
            monkeypatch.setitem(ROWS, name, msgspec.structs.replace(row, seconds=OUTCOME_SECONDS))


@dataclass
class Counter:
    """A counter with one virtual terminal, and the seller's till."""

    service: Service
    fleet: Fleet
    terminal: Terminal

    @property
    def display(self) -> Panel:
        """What the terminal shows."""
        return self.fleet.find(self.terminal.id).panel

    @property
    def screen(self) -> Screen:
        """The screen of the terminal."""
        return self.display.screen

    async def order(self, **fields: Any) -> str:
        """Create an order; return its id once the terminal shows it."""
        reply = await self.service.create(self.terminal, **fields)
        assert reply.status == 201, reply
        order_id: str = reply.body["id"]
        await self.until(lambda screen: screen.order_id == order_id and screen.name != "amount")
        return order_id

    async def act(self, name: ActionName, **fields: Any) -> Screen:
        """Do at the terminal what a person does."""
        return await self.fleet.find(self.terminal.id).act(Action(name, **fields))

    async def shows(self, name: str) -> Screen:
        """Wait for the screen of that name."""
        return await self.until(lambda screen: screen.name == name)

    async def until(self, is_met: Callable[[Screen], bool]) -> Screen:
        """Wait for a screen."""
        try:
            async with asyncio.timeout(HANGS_SECONDS):
                while not is_met(self.screen):
                    await self.display.changed(self.display.revision, HANGS_SECONDS)
        except TimeoutError:
            raise AssertionError(f"the terminal shows {self.screen}") from None
        return self.screen

    async def ended(self, order_id: str, status: str) -> dict[str, Any]:
        """Wait until the order has the status; return its payment."""
        order = await self.service.until(order_id, status)
        payment: dict[str, Any] = order["transactions"]["payments"][0]
        return payment

    async def ledger(self) -> list[tuple[Any, ...]]:
        """Return the payments at the acquirer: id, amount in minor units and outcome."""
        found = await self.service.database.read(lambda tx: tx.all(LEDGER))
        return [tuple(row) for row in found]


@contextlib.asynccontextmanager
async def counter(
    database: Database,
    folder: Path,
    script: str = "manual",
    *,
    tips: tuple[int, ...] = (),
    pace: Pace = QUICK,
    **options: Any,
) -> AsyncIterator[Counter]:
    """Run a service with one virtual terminal, which has said hello; what it only waits for is skipped."""
    with skipped_waits(database):
        async with _opened(database, folder, script, tips=tips, pace=pace, **options) as opened:
            yield opened


@contextlib.asynccontextmanager
async def _opened(
    database: Database, folder: Path, script: str, *, tips: tuple[int, ...], pace: Pace, **options: Any
) -> AsyncIterator[Counter]:
    async with running(database, development=True, **options) as service:
        terminal = await service.terminal()
        if tips:
            percentages = json.dumps(tips)
            sql, arguments = SET_KIND, (service.seller_id, terminal.id, "terminal", percentages)
            await database.write(lambda tx: tx.run(sql, *arguments))
        fleet = Fleet(service.base_url, folder / "terminals", pace)
        fleet.faults = service.shared.objects[Faults]
        await fleet.start()
        try:
            await fleet.add(terminal.id, terminal.token, script)
            yield Counter(service, fleet, terminal)
        finally:
            await fleet.stop()
