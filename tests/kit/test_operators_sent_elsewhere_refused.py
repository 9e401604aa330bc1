"""What is not sent to another URL: bad URLs, other roles, ended subscriptions, and anything in production."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

import webhooks_scene as scene
from hostile_urls import PRIVATE, connections, rows_of
from operator_calls import audited, operator
from paydesk.platform.storage.database import Database
from sent_elsewhere_scene import URL, Desk, desk
from tables import each
from waiting import HANGS_SECONDS

UNKNOWN = f"{uuid.UUID(int=1)}.{uuid.UUID(int=2)}"


@pytest.fixture
async def one(database: Database) -> AsyncIterator[Desk]:
    """A desk that nothing is sent from."""
    async with desk(database) as made:
        yield made


@each(
    "url",
    [
        "",
        "x",
        "ftp://127.0.0.1/",
        "http://ana:secret@127.0.0.1/",
        "http://127.0.0.1:9/#x",
        "http://127.0.0.1:9/?data.id=1",
        "http://127.0.0.1:9/?type=order",
        "http://127.1/",
        "http://127.0.0.1:9/\r\nX-Injected: 1",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00::1]/",
        f"http://127.0.0.1:9/{'x' * 500}",
        f"http://127.0.0.1:9/{'x' * 3000}",
    ],
)
async def test_a_bad_url_is_refused_as_that_of_a_subscription(one: Desk, url: str) -> None:
    """With the same details; nothing is sent, and nothing audited."""
    owner = await operator(one.service)
    before = await one.state()
    with connections() as made:
        refused = await one.ask(url)
    body = {"client_id": one.service.scene.application.application_id, "url": url}
    expected = await owner.ask("POST", "subscriptions", body)
    assert (refused.status, refused.code, refused.details) == (400, "property_value", expected.details)
    assert refused.details[0].startswith("'$.url' - must ")
    assert [address for address in made if not one.service.base_url.endswith(f":{address[1]}")] == []
    assert await audited(one.service) == []
    assert await one.state() == before


@each("body", [{}, {"url": None}, {"url": 1}, {"url": URL, "secret": "x"}, []])
async def test_the_body_has_only_a_url(one: Desk, body: Any) -> None:
    """Anything else is refused."""
    assert (await one.support.ask("POST", f"deliveries/{one.delivery_id}/send-to", body)).status == 400
    assert await audited(one.service) == []


async def test_an_address_that_is_not_public_is_reported(database: Database) -> None:
    """As one of a subscription: an operator event names the host and the operator."""
    async with desk(database) as one:
        assert (await one.ask("http://10.0.0.1/")).status == 400
        events = await _events(one)
        assert (events[0]["kind"], events[0]["subject"]) == ("webhook_address_refused", one.subscription_id)
        assert events[0]["body"]["operator_id"] == one.support.operator_id


@pytest.mark.on_postgres
async def test_a_name_that_moves_after_the_check_is_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the connection: an error, no connection, and an operator event."""
    answers, ask = iter([("127.0.0.1",), (PRIVATE,)]), socket.getaddrinfo

    def lookup(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        return rows_of(next(answers), port) if host == "moving.example" else ask(host, port, *args, **kwargs)

    async with desk(database) as one:
        monkeypatch.setattr(socket, "getaddrinfo", lookup)
        with connections() as made:
            answered = await one.sent("http://moving.example:9/")
        assert answered["error"] == f"moving.example is at {PRIVATE}, which is not a public address"
        assert PRIVATE not in {address[0] for address in made}
        assert [event["kind"] for event in await _events(one)] == ["webhook_address_refused"]


async def _events(one: Desk) -> list[dict[str, Any]]:
    """Return the operator events, of which one is recorded after the answer was sent."""
    async with asyncio.timeout(HANGS_SECONDS):
        while not (found := (await one.support.did("GET", "events"))["data"]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    events: list[dict[str, Any]] = found
    return events


async def test_a_viewer_may_not(database: Database) -> None:
    """Nothing is sent or audited."""
    async with scene.receiver() as receiver, desk(database) as one:
        reply = await one.ask(receiver.url, await operator(one.service, "viewer"))
        assert (reply.status, reply.code) == (403, "forbidden")
        assert (receiver.got, await audited(one.service)) == ([], [])


@pytest.mark.parametrize(
    "ending",
    [
        "UPDATE subscriptions SET deleted_ms = 1",
        "UPDATE authorizations SET withdrawn_ms = 1",
        "UPDATE subscription_secrets SET dropped_ms = 1",
    ],
    ids=["deleted", "withdrawn", "without secrets"],
)
async def test_of_an_ended_subscription_nothing_is_sent(database: Database, ending: str) -> None:
    """409, as for a resend."""
    async with scene.receiver() as receiver, desk(database) as one:
        await one.service.scene.run(ending)
        reply = await one.ask(receiver.url)
        assert (reply.status, reply.code) == (409, "subscription_ended")
        assert (receiver.got, await audited(one.service)) == ([], [])


async def test_unknown_deliveries(database: Database) -> None:
    """404; a malformed id 400. An id in upper case is the same one."""
    async with scene.receiver() as receiver, desk(database) as one:
        body = {"url": receiver.url}
        assert await one.support.refused("POST", f"deliveries/{UNKNOWN}/send-to", body) == (404, "delivery_not_found")
        assert await one.support.refused("POST", "deliveries/x/send-to", body) == (400, "invalid_path_param")
        assert receiver.got == []
        assert (await one.support.did("POST", f"deliveries/{one.delivery_id.upper()}/send-to", body))["answer"]
