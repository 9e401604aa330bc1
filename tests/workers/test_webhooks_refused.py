"""A receiver whose name resolves to a non-public address: nothing is sent, and there is one operator event."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from typing import Any

import pytest
import structlog

import webhooks_scene as scene
from paydesk.core.clock import MovableClock
from paydesk.engine.webhooks.addresses import CheckedResolver
from paydesk.platform.operator_events import HOUR_MS
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database

URL = "https://shop.example/hooks?key=secret-of-the-receiver"
EVENTS = "SELECT kind, subject, seller_id, body, occurrences FROM operator_events ORDER BY created_ms"


def resolver() -> CheckedResolver:
    """Return a resolver that resolves every name to a private address."""

    def lookup(_host: str, port: int) -> Sequence[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("10.0.0.1", port))]

    return CheckedResolver(loopback_allowed=False, lookup=lookup)


async def events(database: Database) -> list[tuple[Any, ...]]:
    """Return the operator events, oldest first."""
    return [tuple(row) for row in await database.read(lambda tx: tx.all(EVENTS))]


async def test_refused_deliveries_make_one_event_an_hour(database: Database) -> None:
    """Further refusals increase its count; after an hour there is another event."""
    clock = MovableClock(frozen_ms=500_000 * HOUR_MS)
    with structlog.testing.capture_logs() as logged:
        async with scene.worker(database, clock, resolver=resolver()) as worker:
            subscription_id, _ = await scene.subscribe(database, URL)
            for _ in range(3):
                await scene.announce(database, clock.now_ms(), scene.order_id())
            assert await scene.step(worker) == 3
            facts = {"application_id": scene.APPLICATION, "host": "shop.example", "host_address": "10.0.0.1"}
            ((kind, subject, seller_id, body, occurrences),) = await events(database)
            assert (kind, subject, seller_id) == ("webhook_address_refused", subscription_id, None)
            assert (json.loads(body), occurrences) == (facts, 3)
            clock.advance(HOUR_MS)
            assert await scene.step(worker) == 3
    assert [row[-1] for row in await events(database)] == [3, 3]
    warnings = [line for line in logged if line["event"] == "webhook_address_refused"]
    assert [(line["log_level"], line["subject"]) for line in warnings] == [("warning", subscription_id)] * 2
    assert {name: warnings[0][name] for name in facts} == facts
    assert "secret-of-the-receiver" not in str(logged)


async def test_a_refused_connection_makes_no_event(database: Database, clock: MovableClock) -> None:
    """The address is public or loopback; only the connection fails."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        async with scene.worker(database, clock) as worker:
            await scene.subscribe(database, url)
            await scene.announce(database, clock.now_ms(), scene.order_id())
            assert await scene.step(worker) == 1
    assert await events(database) == []


@pytest.mark.on_postgres
async def test_two_nodes_make_one_event_concurrently(database: Database, database_url: str) -> None:
    """The subscription has one event, and every attempt is counted."""
    clock = MovableClock(frozen_ms=500_000 * HOUR_MS)
    other = database if database.name == "sqlite" else await open_database(database_url)
    async with (
        scene.worker(database, clock, resolver=resolver(), webhook_concurrency_max=4) as first,
        scene.worker(other, clock, resolver=resolver(), webhook_concurrency_max=4) as second,
    ):
        await scene.subscribe(database, URL)
        for _ in range(16):
            await scene.announce(database, clock.now_ms(), scene.order_id())
        with structlog.testing.capture_logs() as logged:
            assert sum(await asyncio.gather(scene.step(first), scene.step(second))) == 16
    assert [row[-1] for row in await events(database)] == [16]
    assert len([line for line in logged if line["event"] == "webhook_address_refused"]) == 1
    if other is not database:
        await other.close()
