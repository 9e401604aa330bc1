"""Notifications of topic `mp-connect`: consents of sellers and their withdrawal."""

from __future__ import annotations

import json
from functools import partial

import pytest
from aiohttp import web
from mercadopago.webhook import WebhookSignatureValidator
from standardwebhooks import Webhook

import webhooks_scene as scene
from paydesk.core.clock import MovableClock, rfc3339
from paydesk.engine.webhooks import outbox
from paydesk.engine.webhooks.schemas import AUTHORIZED, CONNECT_TOPIC, DEAUTHORIZED
from paydesk.platform.storage.database import Database, Transaction

WITHDRAWN = "INSERT INTO authorizations VALUES ($1, '01', $2, 'read', 1, 2)"


async def announce(
    database: Database, clock: MovableClock, action: str, *, application_id: int = scene.APPLICATION
) -> None:
    """Insert an event between the seller and the application."""
    now_ms = clock.now_ms()
    await database.write(
        partial(
            outbox.announce_connect, seller_id=scene.SELLER, application_id=application_id, action=action, now_ms=now_ms
        )
    )


async def deliveries(database: Database, application_id: int = scene.APPLICATION) -> list[scene.Delivery]:
    """Return the deliveries of the application's events."""
    return await scene.deliveries(database, str(application_id))


async def test_official_clients_accept_the_notification(database: Database, clock: MovableClock) -> None:
    """`id` and `user_id` are numbers, `data.id` is the seller, and official validators accept the signatures."""
    clock.freeze()
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        _, secret = await scene.subscribe(database, receiver.url, topic=CONNECT_TOPIC)
        await announce(database, clock, AUTHORIZED)
        assert await scene.step(worker) == 1
    (got,) = receiver.got
    document = json.loads(got.body)
    assert got.headers["webhook-id"] == str(document["id"])
    assert 10**15 <= document.pop("id") < 2**53
    assert document == {
        "action": "application.authorized",
        "api_version": "v1",
        "application_id": str(scene.APPLICATION),
        "type": "mp-connect",
        "user_id": scene.SELLER,
        "live_mode": True,
        "date_created": rfc3339(clock.now_ms()),
        "data": {"id": str(scene.SELLER)},
    }
    assert dict(got.url.query) == {"shop": "7", "data.id": str(scene.SELLER), "type": "mp-connect"}
    WebhookSignatureValidator.validate(
        got.headers["X-Signature"],
        got.headers["X-Request-Id"],
        got.url.query["data.id"],
        secret.reveal(),
        tolerance_seconds=60,
    )
    Webhook(secret.reveal()).verify(got.body, dict(got.headers))


@pytest.mark.on_postgres
async def test_events_of_a_seller_and_an_application_go_in_order(database: Database, clock: MovableClock) -> None:
    """The second waits for the first, also while that fails; another application's events don't wait."""
    clock.freeze()
    is_up = False

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=200 if is_up or "other" in request.query else 500)

    async with scene.receiver(answer) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url, topic=CONNECT_TOPIC)
        await scene.subscribe(database, f"{receiver.url}&other=1", topic=CONNECT_TOPIC, application_id=8)
        for action in (AUTHORIZED, DEAUTHORIZED, AUTHORIZED):
            await announce(database, clock, action)
        await announce(database, clock, DEAUTHORIZED, application_id=8)
        assert await scene.step(worker) == 2
        is_up = True
        clock.advance(17_000)
        await scene.step(worker)
    arrived = [json.loads(got.body)["action"] for got in receiver.got if "other" not in got.url.query]
    assert arrived == [AUTHORIZED, AUTHORIZED, DEAUTHORIZED, AUTHORIZED], "the first one twice"
    assert len({got.body for got in receiver.got if "other" not in got.url.query}) == 3
    assert [(one.version, one.status) for one in await deliveries(database)] == [(n, "delivered") for n in (1, 2, 3)]
    assert [(one.version, one.status) for one in await deliveries(database, 8)] == [(1, "delivered")]


async def test_events_go_to_matching_subscriptions(database: Database, clock: MovableClock) -> None:
    """Live and test subscriptions of the application with this action, and none of topic `orders`."""
    url = "https://shop.example/hooks"
    both = [(await scene.subscribe(database, url, live=live, topic=CONNECT_TOPIC))[0] for live in (True, False)]
    picky, _ = await scene.subscribe(database, url, actions=(DEAUTHORIZED,), topic=CONNECT_TOPIC)
    await scene.subscribe(database, url)
    await scene.subscribe(database, url, topic=CONNECT_TOPIC, application_id=8)
    await announce(database, clock, AUTHORIZED)
    assert {one.subscription_id for one in await deliveries(database)} == set(both)
    await announce(database, clock, DEAUTHORIZED)
    assert {one.subscription_id for one in await deliveries(database) if one.version == 2} == {*both, picky}
    await scene.announce(database, clock.now_ms(), order := scene.order_id())
    assert len(await scene.deliveries(database, order)) == 1
    assert await deliveries(database, 8) == []


@pytest.mark.parametrize("topic", ["orders", "mp-connect"])
async def test_a_withdrawn_application_gets_only_mp_connect(
    database: Database, clock: MovableClock, topic: str
) -> None:
    """Pending `orders` deliveries are withdrawn; `mp-connect` deliveries are still sent."""
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url, topic=topic)
        await announce(database, clock, AUTHORIZED)
        await scene.announce(database, clock.now_ms(), order := scene.order_id())
        await database.write(lambda tx: tx.run(WITHDRAWN, scene.SELLER, scene.APPLICATION))
        await announce(database, clock, DEAUTHORIZED)
        await scene.step(worker)
    if topic == CONNECT_TOPIC:
        assert [one.status for one in await deliveries(database)] == ["delivered", "delivered"]
        assert [json.loads(got.body)["action"] for got in receiver.got] == [AUTHORIZED, DEAUTHORIZED]
    else:
        assert [one.status for one in await scene.deliveries(database, order)] == ["withdrawn"]
        assert receiver.got == []


async def test_a_deleted_subscription_gets_nothing(database: Database, clock: MovableClock) -> None:
    """Its pending deliveries are withdrawn."""
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        subscription_id, _ = await scene.subscribe(database, receiver.url, topic=CONNECT_TOPIC)
        await announce(database, clock, AUTHORIZED)
        await database.write(lambda tx: tx.run("UPDATE subscriptions SET deleted_ms = 1"))
        await scene.step(worker)
        assert [(one.subscription_id, one.status) for one in await deliveries(database)] == [
            (subscription_id, "withdrawn")
        ]
        assert receiver.got == []


async def test_an_event_is_rolled_back_with_its_transaction(database: Database, clock: MovableClock) -> None:
    """Versions have no gap afterwards."""
    await scene.subscribe(database, "https://shop.example/hooks", topic=CONNECT_TOPIC)

    async def refused(tx: Transaction) -> None:
        await outbox.announce_connect(
            tx, seller_id=scene.SELLER, application_id=scene.APPLICATION, action=AUTHORIZED, now_ms=clock.now_ms()
        )
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.write(refused)
    assert await database.read(scene.pending_count) == 0
    await announce(database, clock, AUTHORIZED)
    assert [one.version for one in await deliveries(database)] == [1]
