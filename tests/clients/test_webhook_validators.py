"""The official validators on Python and on Node accept every delivery, retry and resend, also during a rotation.

The deliveries are those of the real worker to a listening receiver.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web

import node_clients
from paydesk.core.clock import MovableClock
from paydesk.core.ids import ulid, uuid
from paydesk.core.secrets import Secret
from paydesk.engine.orders import samples
from paydesk.engine.webhooks import outbox
from paydesk.engine.webhooks.addresses import CheckedResolver
from paydesk.engine.webhooks.delivery import resend_store
from paydesk.engine.webhooks.delivery.job import DeliveryJob
from paydesk.engine.webhooks.delivery.resending import ResendJob
from paydesk.engine.webhooks.delivery.sending import Sender
from paydesk.engine.webhooks.outbox import OrderEvent
from paydesk.engine.webhooks.schemas import ACTIONS, ACTIONS_OF, CONNECT_TOPIC, TOPIC
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.engine.webhooks.subscriptions.store import SubscriptionSecret
from paydesk.platform.jobs import JobWorker
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.worker import WorkerContext
from webhook_validators import ALL, OF_THE_BODY, OF_X_SIGNATURE, accepting
from webhooks_scene import APPLICATION, KEYS, SELLER, Received, Receiver, receiver, step, subscribe, worker

PROMOTE = "UPDATE subscriptions SET secret_generation = $2 WHERE subscription_id = $1"
DROP = "UPDATE subscription_secrets SET dropped_ms = 1 WHERE subscription_id = $1 AND generation = $2"

EVERY = [
    (action, detail)
    for actions in ACTIONS_OF.values()
    for action in actions
    for detail in samples.status_details(action) or (None,)
]


@pytest.fixture(autouse=True, scope="module")
def _node() -> None:
    node_clients.require()


@pytest.fixture
def clock() -> MovableClock:
    """A clock that stands still."""
    made = MovableClock()
    made.freeze()
    return made


async def announce(database: Database, action: str, detail: str | None, now_ms: int) -> None:
    """Insert the sample of the action with its deliveries, as a move does."""
    made = samples.sample(
        action,
        now_ms=now_ms,
        status_detail=detail,
        order_id=f"ORD{ulid(now_ms)}",
        event_id=uuid() if action in ACTIONS else None,
        seller_id=SELLER,
        application_id=APPLICATION,
    )

    async def work(tx: Transaction) -> None:
        if made.topic == CONNECT_TOPIC:
            await outbox.announce_connect(
                tx, seller_id=SELLER, application_id=APPLICATION, action=action, now_ms=now_ms
            )
        else:
            outbox.announce(tx, _event(made, now_ms))

    await database.write(work)


def _event(made: samples.Sample, now_ms: int) -> OrderEvent:
    data = json.loads(made.body)["data"]
    return OrderEvent(
        seller_id=SELLER,
        order_id=made.source_id,
        version=data["version"],
        event_id=made.event_id,
        action=made.action,
        move="test",
        status="created",
        status_detail="created",
        payment_status_detail="created",
        body=made.body,
        created_ms=now_ms,
        application_id=APPLICATION,
        live=0,
    )


async def accepted(got: Received, secret: Secret) -> set[str]:
    """Return the validators that accept the request with the secret."""
    return await asyncio.to_thread(accepting, str(got.url), dict(got.headers), got.body, secret.reveal())


async def delivered(database: Database, clock: MovableClock, receiving: Receiver, count: int) -> list[Received]:
    """Let the worker deliver what is due; return the `count` requests that the receiver got since."""
    before = len(receiving.got)
    async with worker(database, clock) as delivering:
        await step(delivering)
    got = receiving.got[before:]
    assert len(got) == count
    return got


async def test_every_action_is_accepted(database: Database, clock: MovableClock) -> None:
    """With every status detail: every validator takes the true secret, and none takes another one."""
    async with receiver() as receiving:
        secrets = {topic: (await subscribe(database, receiving.url, topic=topic))[1] for topic in ACTIONS_OF}
        for action, detail in EVERY:
            await announce(database, action, detail, clock.now_ms())
        got = await delivered(database, clock, receiving, len(EVERY))
    kinds = {"order": TOPIC, "mp-connect": CONNECT_TOPIC}
    for request in got:
        body = json.loads(request.body)
        topic = kinds[request.url.query["type"]]
        other = next(secret for name, secret in secrets.items() if name != topic)
        assert await accepted(request, secrets[topic]) == ALL, body["action"]
        assert await accepted(request, other) == set(), body["action"]
    assert {json.loads(request.body)["action"] for request in got} == set(samples.actions())


@pytest.mark.on_postgres
async def test_retries_are_accepted(database: Database, clock: MovableClock) -> None:
    """Every attempt of one notification, with the same body and ids: each has a time and signatures of its own."""
    statuses = iter((500, 302, 404, 200))

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=next(statuses))

    async with receiver(answer) as receiving:
        _, secret = await subscribe(database, receiving.url)
        await announce(database, "order.processed", None, clock.now_ms())
        for _ in range(4):
            await delivered(database, clock, receiving, 1)
            clock.advance(3_600_000)
        await delivered(database, clock, receiving, 0)
    for number, request in enumerate(receiving.got):
        assert request.headers["x-retry"] == str(number)
        assert await accepted(request, secret) == ALL
    assert len({(request.body, request.headers["x-request-id"]) for request in receiving.got}) == 1


@dataclass(frozen=True)
class Rotation:
    """A subscription whose secret is rotated, step by step."""

    database: Database
    subscription_id: str
    old: Secret

    @property
    def new(self) -> Secret:
        """The second secret."""
        return SubscriptionSecret(self.subscription_id, 2, KEYS.active, 0).derive(KEYS)

    async def steps(self) -> AsyncIterator[tuple[set[str], set[str]]]:
        """Make each step, and yield which validators then accept the old secret, and which the new one."""
        yield ALL, set()
        await self._run(subscriptions.ADD_GENERATION, self.subscription_id, 2, KEYS.active, 0)
        yield ALL, OF_THE_BODY
        await self._run(PROMOTE, self.subscription_id, 2)
        yield OF_THE_BODY, ALL
        await self._run(DROP, self.subscription_id, 1)
        yield set(), ALL

    async def verify(self, got: Received, expected: tuple[set[str], set[str]]) -> None:
        """Verify a request with both secrets."""
        assert (await accepted(got, self.old), await accepted(got, self.new)) == expected

    async def _run(self, statement: str, *values: object) -> None:
        await self.database.write(lambda tx: tx.run(statement, *values))


async def test_both_secrets_are_accepted_during_a_rotation(database: Database, clock: MovableClock) -> None:
    """Standard Webhooks takes the old and the new one, X-Signature the primary one; a dropped one is refused."""
    async with receiver() as receiving:
        rotation = Rotation(database, *await subscribe(database, receiving.url))
        async for expected in rotation.steps():
            await announce(database, "order.processed", None, clock.now_ms())
            (got,) = await delivered(database, clock, receiving, 1)
            await rotation.verify(got, expected)


async def test_every_resend_is_accepted(database: Database, clock: MovableClock) -> None:
    """Of every action, with the secrets that are valid when it is resent: the same body, and X-Retry counts."""
    async with receiver() as receiving:
        rotation = Rotation(database, *await subscribe(database, receiving.url))
        for action in ACTIONS:
            await announce(database, action, None, clock.now_ms())
        first = {got.body: got for got in await delivered(database, clock, receiving, len(ACTIONS))}
        retries = 0
        async for expected in rotation.steps():
            retries += 1
            for got in await resent(database, clock, receiving, len(ACTIONS)):
                await rotation.verify(got, expected)
                assert got.headers["x-request-id"] == first[got.body].headers["x-request-id"]
                assert got.headers["x-retry"] == str(retries)


async def resent(database: Database, clock: MovableClock, receiving: Receiver, count: int) -> list[Received]:
    """Resend every delivery; return the `count` requests that the receiver got since."""
    before = len(receiving.got)

    async def request_all(tx: Transaction) -> None:
        for (delivery_id,) in await tx.all("SELECT delivery_id FROM deliveries WHERE seller_id = $1", SELLER):
            await resend_store.request(tx, SELLER, delivery_id, clock.now_ms())

    await database.write(request_all)
    context = WorkerContext(database, Settings(), clock, KEYS, loopback_allowed=True)
    async with Sender(CheckedResolver(loopback_allowed=True), timeout_seconds=5) as sender:
        resends = JobWorker(context, ResendJob(context, DeliveryJob(context, sender)))
        while await resends.step():
            pass
    got = receiving.got[before:]
    assert len(got) == count
    return got


async def test_changed_requests_are_refused(database: Database, clock: MovableClock) -> None:
    """The validators do validate: a changed body or id is refused by those that it concerns."""
    async with receiver() as receiving:
        _, secret = await subscribe(database, receiving.url)
        await announce(database, "order.processed", None, clock.now_ms())
        (got,) = await delivered(database, clock, receiving, 1)
    url, headers, body, key = str(got.url), dict(got.headers), got.body, secret.reveal()
    assert accepting(url, headers, body.replace(b"24.90", b"99.90"), key) == OF_X_SIGNATURE
    assert accepting(url.replace("data.id=ord", "data.id=ORD"), headers, body, key) == OF_THE_BODY
    assert accepting(url, {**headers, "X-Request-Id": uuid()}, body, key) == OF_THE_BODY
    assert accepting(url, {**headers, "webhook-id": uuid()}, body, key) == OF_X_SIGNATURE
