"""The real engine on a SQLite file of its own, as a kit drives it: over HTTP, with a clock that is moved.

Schedules follow that clock, and so do the leases of jobs. Calls to the acquirer take real time.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from paydesk.core import keys, runtime
from paydesk.core.clock import Clock, MovableClock
from paydesk.core.money import CURRENCIES, Currency
from paydesk.engine.orders.routing import Routing
from paydesk.engine.payments import confirmations, inquiries, reversals
from paydesk.engine.payments.acquirer import Acquirer
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.jobs import NEVER_MS, AcquirerJob
from paydesk.engine.payments.lifecycles import INQUIRIES, REFUNDS, REVERSALS
from paydesk.engine.payments.refunds import attempts as refunds
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.platform.jobs import JobWorker
from paydesk.platform.process import node
from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.worker import Worker, WorkerContext
from paydesk.service.workers import WORKERS
from paydesk_dev import http_client
from paydesk_dev.clock.clock import restore_clock
from paydesk_dev.conformance import service
from paydesk_dev.conformance.acquirers.recorded import Recorded
from paydesk_dev.conformance.acquirers.target import Target
from paydesk_dev.conformance.case import NotShown
from paydesk_dev.conformance.service import RunningService
from paydesk_dev.conformance.shop import Order, Shop
from paydesk_dev.http_client import Client, Document, Reply

JOBS: tuple[AcquirerJob[Any], ...] = (refunds.JOB, confirmations.JOB, inquiries.JOB, reversals.JOB)
RETRY_SECONDS, REPEATED = 0.25, (423, 503)
CARD = CARDS["visa_approved"]
SECONDS_MAX = 60.0
"""For whatever must happen within real time."""
POLL_SECONDS = 0.02
_OPEN = " UNION ALL ".join(
    f"SELECT next_ms FROM {table} WHERE {is_open}"
    for table, is_open in (
        *((lifecycle.table, lifecycle.open) for lifecycle in (INQUIRIES, REVERSALS, REFUNDS)),
        ("confirmations", "status IN ('provisional', 'confirming')"),
    )
)
SET_CURRENCY = "UPDATE sellers SET currency = $2, country = $3 WHERE seller_id = $1"


class Patient(Client):
    """A client that repeats a request, with its key, while the service is away or still working on it."""

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        seconds_max: float = SECONDS_MAX,
    ) -> Reply:
        """Send the request until it is answered. Raises `OSError` after `seconds_max`."""
        end = runtime.monotonic() + seconds_max
        while True:
            try:
                reply = await super().send(method, path, body, headers, seconds_max=seconds_max)
                if reply.status not in REPEATED or runtime.monotonic() > end:
                    return reply
            except OSError:
                if runtime.monotonic() > end:
                    raise
            await asyncio.sleep(RETRY_SECONDS)


@dataclass(slots=True)
class Engine:
    """A running engine, and the adapter for the kit's own calls."""

    shop: Shop
    device: Client
    database: Database
    adapter: Acquirer
    encrypted_data: bytes
    boot_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    async def start_session(self) -> None:
        """Begin the terminal's session."""
        body = {"boot_id": self.boot_id, "app_version": "conformance kit", "journal": []}
        await self.device.call("POST", "/device/v1/hello", body)

    async def begin(self, amount: str) -> Order:
        """Place an order, which the terminal takes."""
        order = await self.shop.create(amount, "PT15M")
        await self.device.call("POST", f"/device/v1/leases/{order.lease_id}/ack", {"boot_id": self.boot_id})
        return order

    async def authorize(self, order: Order) -> Document:
        """Have the service request the authorization; return its answer."""
        body = {
            "boot_id": self.boot_id,
            "entry_mode": "chip",
            "card": {"first_digits": CARD.first_digits, "last_digits": CARD.last_digits},
            "payment_method": {"id": CARD.brand, "type": CARD.type, "installments": 1},
            "encrypted_data": base64.b64encode(self.encrypted_data).decode(),
        }
        return await self.device.call("POST", f"/device/v1/leases/{order.lease_id}/authorize", body)

    async def report(self, order: Order, **content: Any) -> Reply:
        """Report the terminal's result."""
        path = f"/device/v1/leases/{order.lease_id}/results/{uuid.uuid4()}"
        return await self.device.send("PUT", path, {"boot_id": self.boot_id, **content})

    async def report_approved(self, order: Order) -> Reply:
        """Report that the card has agreed to the approval."""
        method = {"id": CARD.brand, "type": CARD.type, "installments": 1}
        return await self.report(
            order, outcome="approved", status_detail="accredited", paid_amount=order.amount, payment_method=method
        )

    async def now_ms(self) -> int:
        """Return the service's time."""
        return (await restore_clock(self.database)).now_ms()

    async def until_idle(self) -> int | None:
        """Wait until no job is due or under way; return when the next one is due. Raises `NotShown`."""
        end = runtime.monotonic() + SECONDS_MAX
        while True:
            next_ms = min((next_ms for next_ms in await self._jobs() if next_ms < NEVER_MS), default=None)
            if next_ms is None or next_ms > await self.now_ms():
                return next_ms
            if runtime.monotonic() > end:
                raise NotShown(f"The engine's jobs did not end within {SECONDS_MAX:g} s.")
            await asyncio.sleep(POLL_SECONDS)

    async def advance(self, seconds: float) -> None:
        """Move the clock, and wait until what has become due is done."""
        await self.shop.advance(f"{max(1, round(seconds))}s")
        await self.until_idle()

    async def next_attempt(self) -> bool:
        """Move the clock to the next attempt of a job, and wait for its end; False if no job is open."""
        next_ms = await self.until_idle()
        if next_ms is None:
            return False
        await self.advance((next_ms - await self.now_ms()) / 1000 + 1)
        return True

    async def _jobs(self) -> list[int]:
        return [row[0] for row in await self.database.read(lambda tx: tx.all(_OPEN))]


def settings_of(folder: Path) -> Settings:
    """Return the settings of an engine with its data in the folder: the defaults, without limits of requests."""
    return Settings(
        database_url=service.database_url(folder), application_requests_per_second=0, device_requests_per_second=0
    )


@asynccontextmanager
async def opened(folder: Path, target: Target, encrypted_data: bytes) -> AsyncIterator[tuple[Engine, Recorded]]:
    """Run an engine in this process. Raises `StartRefused`."""
    settings, clock = settings_of(folder), MovableClock()
    with node.listen("127.0.0.1", 0) as listener:
        async with node.database_of(settings) as database, http_client.session() as http:
            accounts = await service.prepared(database, folder, listener, "service", live=True)
            recorded = Recorded(target.create(database, clock))
            await database.write(partial(set_currency, seller_id=accounts.seller_id, adapter=recorded.adapter))
            acquirer = cast("Acquirer", recorded)
            async with serving(folder, target.name, database, listener, acquirer, clock):
                engine = engine_of(accounts, http, database, recorded.adapter, encrypted_data)
                await engine.start_session()
                yield engine, recorded


def engine_of(
    accounts: RunningService, http: Any, database: Database, adapter: Acquirer, encrypted_data: bytes
) -> Engine:
    """Return the engine with these accounts."""
    application, operator, device = (
        Patient(http, accounts.base_url, token)
        for token in (accounts.access_token, accounts.operator_token, accounts.device_token)
    )
    shop = Shop(application, operator, accounts.seller_id, service.TERMINAL_ID, "service")
    return Engine(shop, device, database, adapter, encrypted_data)


@asynccontextmanager
async def serving(
    folder: Path, name: str, database: Database, listener: socket.socket, acquirer: Acquirer, clock: MovableClock
) -> AsyncIterator[None]:
    """Serve with this acquirer of live orders, and close it at the end. Leases of jobs follow the service's clock."""
    acquirers = Acquirers(live={name: acquirer}, routing=Routing(name))
    own = tuple(Worker(f"conformance.{job.topic}", partial(_run, job, clock)) for job in JOBS)
    others = tuple(worker for worker in WORKERS if worker.run not in [job.run for job in JOBS])
    server_keys, objects = keys.read(folder / service.KEYS_FILE), (acquirers, acquirers.routing)
    async with (
        acquirers.closing(),
        service.serving(
            settings_of(folder), database, server_keys, clock, listener, *objects, workers=(*others, *own), wall=clock
        ),
    ):
        yield


async def _run(job: AcquirerJob[Any], wall: Clock, context: WorkerContext, stop: asyncio.Event) -> None:
    await JobWorker(context, job, wall=wall).run(stop)


def currency_of(adapter: Acquirer) -> Currency:
    """Return a currency that the acquirer accepts. Raises `StartRefused` if Paydesk has none."""
    currency = next((one for one in CURRENCIES.values() if adapter.capabilities.supports(one.code)), None)
    if currency is None:
        raise StartRefused("The acquirer accepts no currency that Paydesk has.")
    return currency


async def set_currency(tx: Transaction, *, seller_id: int, adapter: Acquirer) -> None:
    """Give the seller a currency that the acquirer accepts. Raises `StartRefused` if Paydesk has none."""
    currency = currency_of(adapter)
    await tx.run(SET_CURRENCY, seller_id, currency.code, currency.country)
