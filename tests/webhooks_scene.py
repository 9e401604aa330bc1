"""Fixtures for tests of webhooks: rows of an order and its events, a listening receiver, a worker."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web
from multidict import CIMultiDictProxy
from yarl import URL

import waiting
from paydesk.core.clock import Clock, MovableClock, rfc3339
from paydesk.core.ids import ulid
from paydesk.core.keys import Keys
from paydesk.core.objects import Objects
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks import outbox
from paydesk.engine.webhooks.addresses import CheckedResolver
from paydesk.engine.webhooks.delivery import store
from paydesk.engine.webhooks.delivery.job import DeliveryJob
from paydesk.engine.webhooks.delivery.sending import Sender
from paydesk.engine.webhooks.schemas import TOPIC, TYPES, Notification
from paydesk.engine.webhooks.signatures import diagnosis
from paydesk.engine.webhooks.signatures.mistakes import NamedSecret, Recorded
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.platform.jobs import Claim, JobWorker
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.worker import WorkerContext

SELLER = 1160535239
APPLICATION = 3676047501096810
KEYS = Keys(1, {1: b"k" * 32})

DELIVERIES = """
SELECT delivery_id, subscription_id, version, status, attempts, next_ms, ended_ms
  FROM deliveries WHERE seller_id = $1 AND order_id = $2 ORDER BY version, subscription_id
"""

until = waiting.until

ATTEMPTS = """
SELECT attempt, started_ms, duration_ms, answer_status, answer_body, error
  FROM attempts WHERE seller_id = $1 AND delivery_id = $2 ORDER BY attempt
"""

PENDING = "SELECT COUNT(*) FROM deliveries WHERE status = 'pending'"

DeliveryWorker = JobWorker[tuple[str, int], store.Claimed]
Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Delivery:
    """One delivery of an order's event to one subscription."""

    delivery_id: str
    subscription_id: str
    version: int
    status: str
    attempts: int
    next_ms: int
    ended_ms: int | None


@dataclass(frozen=True)
class Attempt:
    """One attempt with its outcome: the beginning of an answer, or an error."""

    attempt: int
    started_ms: int
    duration_ms: int
    answer_status: int | None
    answer_body: str
    error: str | None


@dataclass(frozen=True)
class Received:
    """One request that the receiver got."""

    url: URL
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def order_and_version(self) -> tuple[str, int]:
        """The order of the notification and its version."""
        data = json.loads(self.body)["data"]
        return data["id"], data["version"]


def validity(secret: Secret, got: Received, now_seconds: float) -> tuple[bool, bool]:
    """Return whether the X-Signature and the webhook-signature of a received notification are valid."""
    headers = {name.lower(): value for name, value in got.headers.items()}
    recorded = Recorded(headers, got.body, got.url.query["data.id"])
    first, second = diagnosis.verify(recorded, [NamedSecret("the secret", secret.reveal())], now_seconds)
    return first.is_valid, second.is_valid


@dataclass
class Receiver:
    """The application's server: records requests and answers with `answer`."""

    answer: Answering
    url: str = ""
    got: list[Received] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Record the request and answer it."""
        self.got.append(Received(request.url, request.headers, await request.read()))
        return await self.answer(request)


async def ok(_: web.BaseRequest) -> web.StreamResponse:
    """Answer 200."""
    return web.Response(text="thank you")


def failing(status: int, headers: dict[str, str] | None = None) -> Answering:
    """Return a handler that always answers `status`."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, text="no", headers=headers)

    return answer


@asynccontextmanager
async def receiver(answer: Answering = ok) -> AsyncIterator[Receiver]:
    """Run a receiver on loopback."""
    made = Receiver(answer)
    runner = web.ServerRunner(web.Server(made.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hooks?shop=7"
    try:
        yield made
    finally:
        await runner.cleanup()


async def subscribe(
    database: Database,
    url: str,
    *,
    actions: tuple[str, ...] = (),
    live: bool = False,
    application_id: int = APPLICATION,
    topic: str = TOPIC,
) -> tuple[str, Secret]:
    """Subscribe the application; return the subscription's id and secret."""

    async def work(tx: Transaction) -> tuple[subscriptions.Subscription, Secret]:
        return await subscriptions.create(
            tx, KEYS, application_id=application_id, live=live, url=url, actions=actions, now_ms=0, topic=topic
        )

    made, secret = await database.write(work)
    return made.subscription_id, secret


def order_id() -> str:
    """Return the id of a new order."""
    return "ORD" + ulid(1)


async def announce(
    database: Database,
    now_ms: int,
    order: str,
    version: int = 1,
    action: str = "order.created",
    *,
    seller_id: int = SELLER,
) -> str:
    """Insert an event of the order with its deliveries, as a move does; return the event's id."""
    event_id = str(uuid.uuid4())

    async def work(tx: Transaction) -> None:
        body = Notification(
            id=event_id,
            action=action,
            api_version="v1",
            application_id=str(APPLICATION),
            type=TYPES[TOPIC],
            user_id=str(seller_id),
            live_mode=False,
            date_created=rfc3339(now_ms),
            data={"id": order, "version": version, "description": "café"},
        )
        outbox.announce(
            tx,
            outbox.OrderEvent(
                seller_id=seller_id,
                order_id=order,
                version=version,
                event_id=event_id,
                action=action,
                move="test",
                status="created",
                status_detail="created",
                payment_status_detail="created",
                body=msgspec.json.encode(body).decode(),
                created_ms=now_ms,
                application_id=APPLICATION,
                live=0,
            ),
        )

    await database.write(work)
    return event_id


@asynccontextmanager
async def worker(
    database: Database,
    clock: MovableClock,
    *,
    wall: Clock | None = None,
    resolver: CheckedResolver | None = None,
    development: bool = False,
    keys: Keys = KEYS,
    faults: Any = None,
    **overrides: object,
) -> AsyncIterator[DeliveryWorker]:
    """Yield a worker that the test steps; one for `development` has the kit's courier, which applies faults."""
    settings = Settings.model_validate(overrides)
    objects = Objects()
    if development:
        from paydesk_dev.faults.active import Faults
        from paydesk_dev.faults.webhooks import Webhooks

        objects = Objects(Webhooks(faults or Faults()).courier)
    context = WorkerContext(
        database, settings, clock, keys, loopback_allowed=True, development=development, objects=objects
    )
    async with Sender(
        resolver or CheckedResolver(loopback_allowed=True),
        timeout_seconds=settings.webhook_timeout_seconds,
        ports=settings.webhook_ports,
    ) as sender:
        yield JobWorker(context, DeliveryJob(context, sender, wall), wall=wall)


async def step(one: DeliveryWorker) -> int:
    """Deliver until nothing is due; return the number of attempts."""
    total = 0
    while started := await one.start_due():
        total += started
        await one.settle()
    return total


async def claim(tx: Transaction, subscription_id: str, times: Claim) -> list[store.Claimed]:
    """Claim due deliveries of the seller."""
    target = await store.target(tx, SELLER, subscription_id)
    assert target is not None
    return await store.claim(tx, SELLER, subscription_id, target, times)


async def deliveries(database: Database, order: str) -> list[Delivery]:
    """Return the deliveries of an order."""
    return [Delivery(*row) for row in await database.read(lambda tx: tx.all(DELIVERIES, SELLER, order))]


async def attempts(database: Database, delivery_id: str) -> list[Attempt]:
    """Return the attempts of one delivery."""
    return [Attempt(*row) for row in await database.read(lambda tx: tx.all(ATTEMPTS, SELLER, delivery_id))]


async def pending_count(tx: Transaction) -> int:
    """Return how many deliveries are pending."""
    row = await tx.one(PENDING)
    assert row is not None
    return int(row[0])
