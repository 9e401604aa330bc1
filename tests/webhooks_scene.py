"""What tests of webhooks share: rows of an order and its events, a receiver that really listens, a worker."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from multidict import CIMultiDictProxy
from yarl import URL

from paydesk.core.clock import Clock, MovableClock
from paydesk.core.ids import ulid
from paydesk.core.keys import Keys
from paydesk.core.secrets import Secret
from paydesk.core.worker import WorkerContext
from paydesk.settings import Settings
from paydesk.storage.database import Database, Transaction
from paydesk.webhooks import outbox, store, subscriptions
from paydesk.webhooks.addresses import CheckedResolver
from paydesk.webhooks.delivery import DeliveryWorker
from paydesk.webhooks.schemas import TOPIC, notification
from paydesk.webhooks.sending import Sender

SELLER = 1160535239
APPLICATION = 3676047501096810
KEYS = Keys(1, {1: b"k" * 32})

INSERT_EVENT = """
INSERT INTO order_events (seller_id, order_id, version, event_id, action, move, status, status_detail,
                          payment_status_detail, body, created_ms, application_id, live)
VALUES ($1, $2, $3, $4, $5, 'test', 'created', 'created', 'created', $6, $7, 1, 1)
"""

PENDING = "SELECT COUNT(*) FROM deliveries WHERE status = 'pending'"

Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Received:
    """One request as the receiver saw it."""

    url: URL
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def order_and_version(self) -> tuple[str, int]:
        """Which order, and which version of it, the request tells of."""
        data = json.loads(self.body)["data"]
        return data["id"], data["version"]


@dataclass
class Receiver:
    """The application's server: keeps what it gets and answers as `answer` does."""

    answer: Answering
    url: str = ""
    got: list[Received] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Keep the request and answer it."""
        self.got.append(Received(request.url, request.headers, await request.read()))
        return await self.answer(request)


async def ok(_: web.BaseRequest) -> web.StreamResponse:
    """Answer 200."""
    return web.Response(text="thank you")


def failing(status: int, headers: dict[str, str] | None = None) -> Answering:
    """Answer `status`, always."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, text="no", headers=headers)

    return answer


@asynccontextmanager
async def receiver(answer: Answering = ok) -> AsyncIterator[Receiver]:
    """A receiver on loopback."""
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
    """Subscribe the application; the subscription's id and its secret."""

    async def work(tx: Transaction) -> tuple[subscriptions.Subscription, Secret]:
        return await subscriptions.create(
            tx, KEYS, application_id=application_id, live=live, url=url, actions=actions, now_ms=0, topic=topic
        )

    made, secret = await database.write(work)
    return made.subscription_id, secret


def order_id() -> str:
    """A new order's id."""
    return "ORD" + ulid(1)


async def announce(database: Database, now_ms: int, order: str, version: int = 1, action: str = "order.created") -> str:
    """An event of the order, with its deliveries, as a move commits it; the event's id."""
    event_id = str(uuid.uuid4())

    async def work(tx: Transaction) -> None:
        body = notification(
            event_id=event_id,
            action=action,
            application_id=APPLICATION,
            user_id=SELLER,
            live=False,
            now_ms=now_ms,
            data={"id": order, "version": version, "description": "café"},
        )
        await tx.run(INSERT_EVENT, SELLER, order, version, event_id, action, body.decode(), now_ms)
        outbox.announce(
            tx,
            seller_id=SELLER,
            order_id=order,
            version=version,
            event_id=event_id,
            application_id=APPLICATION,
            live=False,
            action=action,
            now_ms=now_ms,
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
    **overrides: object,
) -> AsyncIterator[DeliveryWorker]:
    """A worker that a test steps by hand."""
    settings = Settings.model_validate(overrides)
    context = WorkerContext(database, settings, clock, KEYS, loopback_allowed=True)
    async with Sender(
        resolver or CheckedResolver(loopback_allowed=True), timeout_seconds=settings.webhook_timeout_seconds
    ) as sender:
        yield DeliveryWorker(context, sender, wall=wall)


async def step(one: DeliveryWorker) -> int:
    """Send what is due, and what comes due by that, until nothing is; how many attempts."""
    total = 0
    while started := await one.start_due():
        total += started
        await one.settle()
    return total


async def deliveries(database: Database, order: str) -> list[store.Delivery]:
    """The notifications of an order."""
    return await database.read(lambda tx: store.deliveries_of(tx, SELLER, order))


async def attempts(database: Database, delivery_id: str) -> list[store.Attempt]:
    """What was tried for one notification."""
    return await database.read(lambda tx: store.attempts_of(tx, SELLER, delivery_id))


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for what a worker that runs by itself does."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the worker tells nobody when it is done
            await asyncio.sleep(0.005)


async def pending_count(tx: Transaction) -> int:
    """Return how many deliveries are pending."""
    row = await tx.one(PENDING)
    assert row is not None
    return int(row[0])
