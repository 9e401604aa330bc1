"""The real engine on a SQLite file of its own, in this process or in one that is killed, with the acquirer under test.

Schedules follow a clock that is moved. Calls to the acquirer take real time.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from paydesk.core import runtime
from paydesk.core.money import CURRENCIES, Currency
from paydesk.engine.orders.routing import Routing
from paydesk.engine.payments import jobs
from paydesk.engine.payments.acquirer import Acquirer, NotSent, Payment, Result
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.platform.process import node
from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev.clock.clock import restore_clock
from paydesk_dev.conformance import service
from paydesk_dev.conformance.acquirers.target import Target
from paydesk_dev.conformance.case import NotShown
from paydesk_dev.conformance.service import RunningService

OPERATIONS = ("authorize", "confirm", "inquire", "refund", "reverse")
REACHABLE_SECONDS, POLL_SECONDS = 90.0, 0.05
"""A circuit breaker closes again within this time."""

SET_CURRENCY = "UPDATE sellers SET currency = $1, country = $2"


class Recorded:
    """The adapter under test, as the engine calls it."""

    def __init__(self, adapter: Acquirer) -> None:
        self.adapter = adapter
        self.asked: list[tuple[str, str, Result]] = []
        """The engine's calls: the operation, the payment's id, and the result."""
        self.running: list[str] = []
        """The operations of the calls that are under way."""

    def __getattr__(self, name: str) -> Any:
        """Return the adapter's own; its operations are recorded."""
        own = getattr(self.adapter, name)
        return partial(self._record, name, own) if name in OPERATIONS else own

    async def _record(self, name: str, own: Any, payment: Payment, *args: Any, **options: Any) -> Result:
        self.running.append(name)
        try:
            result: Result = await own(payment, *args, **options)
        finally:
            self.running.remove(name)
        self.asked.append((name, payment.payment_id, result))
        return result


class Engine(NamedTuple):
    """A running engine: its accounts, its database and its adapter."""

    accounts: RunningService
    database: Database
    recorded: Recorded


def settings_of(folder: Path) -> Settings:
    """Return the settings of an engine with its data in the folder: the defaults, without limits of requests."""
    return Settings(
        database_url=service.database_url(folder), application_requests_per_second=0, device_requests_per_second=0
    )


@asynccontextmanager
async def opened(folder: Path, target: Target) -> AsyncIterator[Engine]:
    """Run an engine in this process. Raises `StartRefused`."""
    with node.listen("127.0.0.1", 0) as listener:
        accounts = await prepared(folder, listener)
        async with serving(folder, target, listener) as (database, recorded):
            yield Engine(accounts, database, recorded)


async def prepared(folder: Path, listener: socket.socket) -> RunningService:
    """Create the engine's database and accounts."""
    async with node.database_of(settings_of(folder)) as database:
        return await service.prepared(database, folder, listener, "service", live=True)


@asynccontextmanager
async def serving(
    folder: Path, target: Target, listener: socket.socket, probe: Payment | None = None
) -> AsyncIterator[tuple[Database, Recorded]]:
    """Serve with the acquirer of live orders, from when it is reachable if there is a `probe`; close it at the end."""
    settings = settings_of(folder)
    async with node.database_of(settings) as database:
        await jobs.release_all(database)
        clock = await restore_clock(database)
        recorded = Recorded(target.create(database, clock))
        currency = currency_of(recorded.adapter)
        await database.write(lambda tx: tx.run(SET_CURRENCY, currency.code, currency.country))
        acquirers = Acquirers(live={target.name: cast("Acquirer", recorded)}, routing=Routing(target.name))
        async with acquirers.running():
            if probe is not None:
                await until_reachable(recorded.adapter, probe)
            async with service.serving(settings, database, folder, clock, listener, acquirers, acquirers.routing):
                yield database, recorded


def currency_of(adapter: Acquirer) -> Currency:
    """Return a currency that the acquirer accepts. Raises `StartRefused` if Paydesk has none."""
    for currency in CURRENCIES.values():
        if adapter.capabilities.supports(currency.code):
            return currency
    raise StartRefused("The acquirer accepts no currency that Paydesk has.")


async def until_reachable(adapter: Acquirer, probe: Payment) -> None:
    """Wait until the adapter sends requests: its circuit breaker is closed, or was never tested. Raises `NotShown`.

    `probe` is a payment that the acquirer does not have: its inquiry or reversal has no effect.
    """
    end = runtime.monotonic() + REACHABLE_SECONDS
    while isinstance(result := await _probed(adapter, probe), NotSent):
        if runtime.monotonic() > end:
            raise NotShown(f"The adapter sends nothing for {REACHABLE_SECONDS:g} s: {result.reason}.")
        await asyncio.sleep(POLL_SECONDS)


async def _probed(adapter: Acquirer, probe: Payment) -> Result:
    if adapter.capabilities.can_inquire:
        return await adapter.inquire(probe)
    return await adapter.reverse(probe, key=probe.payment_id, amount_minor=probe.amount_minor)
