"""What operators learn of attacks: one event and one warning each, with the facts and without any secret."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import structlog

from oauth_scene import DAY_MS, SECOND_MS
from operator_calls import operator
from page_scene import Browser, browser
from paydesk.core.clock import MovableClock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Device, Service, running
from waiting import until

CLIENT = "203.0.113.9"
UNKNOWN_EMAIL = "not-a-seller@shop.example"
START_MS = 1_769_869_602_109


@dataclass
class Watched:
    """A service behind a trusted proxy, its log, and what operators read of it."""

    service: Service
    clock: MovableClock
    logged: list[Any]

    async def events(self) -> list[dict[str, Any]]:
        """What `GET /operator/v1/events` answers, without ids and dates."""
        person = await operator(self.service, "support")
        events: list[dict[str, Any]] = (await person.did("GET", "events"))["data"]
        return [{name: event[name] for name in event if name not in ("id", "created_date")} for event in events]

    async def event(self) -> dict[str, Any]:
        """The only event; there is one warning of the same facts."""
        # It is recorded, and then logged, once the answer is sent.
        await until(lambda: any(line["log_level"] == "warning" for line in self.logged))
        (event,) = await self.events()
        (line,) = [line for line in self.logged if line["event"] == event["kind"]]
        assert line["log_level"] == "warning"
        assert {name: line[name] for name in event["body"]} == event["body"]
        assert (line["subject"], line.get("seller_id")) == (event["subject"], event.get("seller_id"))
        return event

    async def token(self, body: dict[str, Any]) -> tuple[int, Any]:
        """What the token endpoint answers a client at `CLIENT`."""
        headers = {"X-Forwarded-For": CLIENT}
        reply = await self.service.request("POST", "/oauth/token", body, token=None, key=None, headers=headers)
        return reply.status, reply.body

    async def grant_id(self) -> str:
        """The id of the only authorization, as `GET /operator/v1/grants` has it."""
        scene = self.service.scene
        sql = (
            "SELECT a.authorization_id FROM token_families c JOIN authorizations a ON a.seller_id = c.seller_id"
            " AND a.authorization_id = c.authorization_id WHERE c.seller_id = $1 AND c.revoked_ms IS NOT NULL"
        )
        return f"{await scene.value(sql, scene.seller.seller_id)}-{scene.seller.seller_id}"


@pytest.fixture
async def watched(database: Database) -> AsyncIterator[Watched]:
    """A service whose clock stands still."""
    clock, settings = MovableClock(frozen_ms=START_MS), Settings(trusted_proxies=("127.0.0.1",))
    async with running(database, clock=clock, settings=settings, workers=False) as service:
        service.scene.clock = clock
        with structlog.testing.capture_logs() as logged:
            yield Watched(service, clock, logged)
        assert not [line for line in logged if line["event"] in ("undeclared_error", "unhandled_exception")]


async def test_a_replayed_refresh_token(watched: Watched) -> None:
    """An event with the revocation, of its grant; what comes afterwards makes no other."""
    scene = watched.service.scene
    first = (await watched.token(scene.exchange(await scene.code())))[1]
    second = (await watched.token(scene.refresh(first["refresh_token"])))[1]
    assert (await watched.token(scene.refresh(second["refresh_token"])))[0] == 200
    assert await watched.events() == []
    watched.clock.advance(DAY_MS)
    for _ in range(3):
        status, body = await watched.token(scene.refresh(first["refresh_token"]))
        assert (status, body["error"]) == (400, "invalid_grant")
    assert await watched.event() == {
        "kind": "refresh_token_replayed",
        "subject": await watched.grant_id(),
        "seller_id": scene.seller.seller_id,
        "message": "A used refresh token was reused. Its token family was revoked.",
        "body": {"application_id": scene.application.application_id, "address": CLIENT},
        "occurrences": 1,
    }


async def test_a_replay_that_revokes_nothing(watched: Watched) -> None:
    """Where the application is set to refuse operators are not alerted."""
    scene = watched.service.scene
    await scene.run("UPDATE applications SET on_replay = 'refuse'")
    first = (await watched.token(scene.exchange(await scene.code())))[1]
    second = (await watched.token(scene.refresh(first["refresh_token"])))[1]
    await watched.token(scene.refresh(second["refresh_token"]))
    watched.clock.advance(DAY_MS)
    assert (await watched.token(scene.refresh(first["refresh_token"])))[1]["error"] == "invalid_grant"
    assert await watched.events() == []


async def test_a_replayed_code(watched: Watched) -> None:
    """Not a repeat of the network's making; later, once."""
    scene = watched.service.scene
    exchange = scene.exchange(await scene.code())
    assert (await watched.token(exchange))[0] == 200
    assert (await watched.token(exchange))[0] == 400
    assert await watched.events() == []
    watched.clock.advance(10 * SECOND_MS)
    for _ in range(3):
        assert (await watched.token(exchange))[0] == 400
    event = await watched.event()
    assert (event["kind"], event["subject"]) == ("authorization_code_replayed", await watched.grant_id())
    assert event["body"] == {"application_id": scene.application.application_id, "address": CLIENT}


async def test_failed_sign_ins_of_a_seller(watched: Watched) -> None:
    """At the fifth with one e-mail address from one address; the next five only raise the count."""
    visitor = await browser(watched.service, X_Forwarded_For=CLIENT)
    for _ in range(4):
        await visitor.sign_in("/applications", password="wrong")
    assert await watched.events() == []
    for _ in range(3):
        await visitor.sign_in("/applications", password="wrong")
    seller_id = watched.service.seller_id
    assert await watched.event() == {
        "kind": "sign_in_failures",
        "subject": str(seller_id),
        "seller_id": seller_id,
        "message": "5 sign-ins with one e-mail address failed from one address within an hour.",
        "body": {"address": CLIENT, "failures": 5},
        "occurrences": 1,
    }


async def test_failed_sign_ins_of_unknown_sellers(watched: Watched) -> None:
    """What was typed is nowhere: it may be a password. However many e-mail addresses, it is one event."""
    typed = [f"{number}-{UNKNOWN_EMAIL}" for number in range(3)]
    visitor = await browser(watched.service, X_Forwarded_For=CLIENT)
    for email in typed:
        for _ in range(5):
            await visitor.sign_in("/applications", email=email, password="wrong")
    event = await watched.event()
    assert (event["subject"], event["body"]) == ("unknown_email", {"address": CLIENT, "failures": 5})
    assert "seller_id" not in event
    assert UNKNOWN_EMAIL not in json.dumps(watched.logged, default=str)
    rows = await watched.service.database.read(
        lambda tx: tx.all("SELECT message, body, repeat_key FROM operator_events")
    )
    assert UNKNOWN_EMAIL not in str([tuple(row) for row in rows])


async def test_a_successful_sign_in_resets_the_count(watched: Watched) -> None:
    """Who mistypes four times is no attacker."""
    for _ in range(3):
        visitor = await browser(watched.service, X_Forwarded_For=CLIENT)
        for _ in range(4):
            await visitor.sign_in("/applications", password="wrong")
        await visitor.sign_in("/applications")
    assert await watched.events() == []


async def restarted(watched: Watched, device: Device) -> Device:
    """The terminal after another start, by the same device token."""
    again = Device(device.service, device.terminal, str(uuid.uuid4()))
    reply = await again.post("/hello", {"boot_id": again.boot_id, "app_version": "1", "journal": []})
    assert reply.status == 200
    assert await watched.events() == []
    return again


Call = Callable[[Device], Awaitable[Any]]
LEASE = "01J67CQQH5904WDBVZEM4JMEP3"
CALLS: list[Call] = [
    lambda device: device.next(0),
    lambda device: device.ack(LEASE),
    lambda device: device.authorizing(LEASE),
    lambda device: device.post(f"/leases/{LEASE}/cancel-result", {"boot_id": device.boot_id, "done": True}),
    lambda device: device.post("/hello", {"boot_id": device.boot_id, "app_version": "1", "journal": []}),
]


@pytest.mark.parametrize("call", CALLS, ids=["next", "ack", "progress", "cancel-result", "hello"])
async def test_two_devices_with_one_token(watched: Watched, call: Call) -> None:
    """A call of an earlier session after a newer one has begun."""
    first = await watched.service.device(await watched.service.terminal())
    await restarted(watched, first)
    for _ in range(3):
        reply = await call(first)
        assert (reply.status, reply.code) == (409, "stale_session")
    assert await watched.event() == {
        "kind": "terminal_session_conflict",
        "subject": first.terminal.id,
        "seller_id": watched.service.seller_id,
        "message": "A call came from an earlier session after a newer one had begun: two devices may use one device"
        " token.",
        "body": {"session": 1, "newest_session": 2, "address": "127.0.0.1"},
        "occurrences": 1,
    }


async def test_a_terminal_that_is_started_again(watched: Watched) -> None:
    """However often, and although its last poll was still open: it never speaks in its earlier session."""
    device = await watched.service.device(await watched.service.terminal())
    for _ in range(3):
        open_poll = asyncio.create_task(device.next(20))
        await watched.service.polls(device.terminal)
        device = await restarted(watched, device)
        assert (await open_poll).code == "stale_session"
    unknown = Device(device.service, device.terminal, str(uuid.uuid4()))
    assert (await unknown.next(0)).code == "stale_session"
    assert await watched.events() == []


async def test_a_subscription_to_an_address_that_is_not_public(watched: Watched) -> None:
    """The host and its address, not the URL; a URL that is wrong otherwise makes no event."""
    person = await operator(watched.service)
    application_id = watched.service.scene.application.application_id
    wanted = {"client_id": str(application_id), "topic": "orders"}
    for url in ("http://10.0.0.1/hook?key=secret-of-the-receiver", "https://shop.invalid/"):
        assert (await person.refused("POST", "subscriptions", {**wanted, "url": url}))[1] == "property_value"
    assert await watched.events() == []
    for _ in range(3):
        url = "https://10.0.0.1/hook?key=secret-of-the-receiver"
        assert (await person.refused("POST", "subscriptions", {**wanted, "url": url}))[1] == "property_value"
    event = await watched.event()
    assert (event["kind"], event["subject"]) == ("webhook_address_refused", str(application_id))
    assert event["body"] == {
        "application_id": application_id,
        "host": "10.0.0.1",
        "host_address": "10.0.0.1",
        "operator_id": person.operator_id,
        "address": "127.0.0.1",
    }
    assert "secret-of-the-receiver" not in json.dumps(watched.logged, default=str)


@pytest.mark.on_postgres
async def test_failures_in_a_known_browser_are_counted(watched: Watched) -> None:
    """Failures in a browser that the seller has signed in with are counted too."""
    known: Browser = await browser(watched.service, X_Forwarded_For=CLIENT)
    await known.sign_in("/applications")
    await known.submit((await known.get("/applications")).form("/sign-out"))
    for _ in range(5):
        await known.sign_in("/applications", password="wrong")
    assert (await watched.event())["subject"] == str(watched.service.seller_id)
