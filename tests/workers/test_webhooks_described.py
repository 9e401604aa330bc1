"""Deliveries of the worker have the query, the headers and the body that the OpenAPI document describes."""

from __future__ import annotations

import json
from functools import partial

import jsonschema_rs
import pytest

import webhooks_scene as scene
from paydesk.core.clock import MovableClock
from paydesk.engine.orders import events, status
from paydesk.engine.orders.openapi import HEADERS, WEBHOOKS, Webhook
from paydesk.engine.orders.presentation import EXAMPLE_ORDER
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.webhooks import outbox
from paydesk.engine.webhooks.schemas import AUTHORIZED, CONNECT_TOPIC, TOPIC
from paydesk.platform.storage.database import Database, Transaction

OF_HTTP = {"host", "accept", "accept-encoding", "user-agent", "content-length", "content-type", "connection"}


async def created(tx: Transaction) -> None:
    """Announce the example order."""
    outbox.announce(tx, events.event_of(status.CREATE, EXAMPLE_ORDER, EXAMPLE_ORDER.created_ms, PLAIN))


authorized = partial(
    outbox.announce_connect, seller_id=scene.SELLER, application_id=scene.APPLICATION, action=AUTHORIZED, now_ms=0
)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("topic", [TOPIC, CONNECT_TOPIC])
async def test_a_delivery_is_as_described(database: Database, clock: MovableClock, topic: str) -> None:
    """Every described parameter is sent, and no other of our own."""
    clock.freeze()
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url, topic=topic, live=True)
        if topic == TOPIC:
            await database.write(created)
        else:
            await database.write(authorized)
        assert await scene.step(worker) == 1
    (got,) = receiver.got
    body = json.loads(got.body)
    described: Webhook = next(one for one in WEBHOOKS if one.action == body["action"])
    jsonschema_rs.validator_for(described.schema, validate_formats=True).validate(body)
    for header in HEADERS:
        jsonschema_rs.validator_for(dict(header.schema), validate_formats=True).validate(got.headers[header.name])
    assert {name.lower() for name in got.headers} - OF_HTTP == {header.name.lower() for header in HEADERS}
    for parameter in described.query:
        jsonschema_rs.validate(dict(parameter.schema), got.url.query[parameter.name])
    assert set(got.url.query) == {"shop", *(parameter.name for parameter in described.query)}
