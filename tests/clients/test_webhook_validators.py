"""The official validators on Python and on Node accept every action's deliveries, each retry, and a rotated secret.

The deliveries are those of the real worker to a listening receiver.
"""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web

from paydesk.core.clock import MovableClock
from paydesk.core.ids import ulid, uuid
from paydesk.core.secrets import Secret
from paydesk.orders import samples
from paydesk.storage.database import Database, Transaction
from paydesk.webhooks import outbox, subscriptions
from paydesk.webhooks.outbox import OrderEvent
from paydesk.webhooks.schemas import ACTIONS, ACTIONS_OF, CONNECT_TOPIC, TOPIC
from paydesk.webhooks.subscriptions import SubscriptionSecret
from webhook_validators import ALL, OF_THE_BODY, OF_X_SIGNATURE, accepting, require_node
from webhooks_scene import APPLICATION, KEYS, SELLER, Received, Receiver, ok, receiver, step, subscribe, worker

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
    require_node()


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
    """With every status detail: four validators take the true secret, and none another one."""
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


async def test_both_secrets_are_accepted_during_a_rotation(database: Database, clock: MovableClock) -> None:
    """Standard Webhooks takes the old and the new one, X-Signature the primary one; a dropped one is refused."""
    async with receiver(ok) as receiving:
        subscription_id, old = await subscribe(database, receiving.url)
        second = SubscriptionSecret(subscription_id, 2, KEYS.active, 0)
        new = second.derive(KEYS)

        async def deliver() -> Received:
            await announce(database, "order.processed", None, clock.now_ms())
            (got,) = await delivered(database, clock, receiving, 1)
            return got

        async def run(statement: str, *values: object) -> None:
            await database.write(lambda tx: tx.run(statement, *values))

        await run(subscriptions.ADD_GENERATION, subscription_id, 2, KEYS.active, 0)
        got = await deliver()
        assert (await accepted(got, old), await accepted(got, new)) == (ALL, OF_THE_BODY)
        await run(PROMOTE, subscription_id, 2)
        got = await deliver()
        assert (await accepted(got, old), await accepted(got, new)) == (OF_THE_BODY, ALL)
        await run(DROP, subscription_id, 1)
        got = await deliver()
        assert (await accepted(got, old), await accepted(got, new)) == (set(), ALL)


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
