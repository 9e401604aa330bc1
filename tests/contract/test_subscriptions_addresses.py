"""Where a webhook may go in production: refused at registration, at a change and at the connection."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from yarl import URL

import webhooks_scene as scene
from hostile_urls import HOSTILE, PRIVATE, PUBLIC, UNPARSED, connections, name_server, rows_of
from operator_calls import Operator, audited, operator
from paydesk.core.clock import MovableClock
from paydesk.engine.webhooks import urls
from paydesk.engine.webhooks.addresses import CheckedResolver
from paydesk.engine.webhooks.delivery.sending import Sender
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Reply, Service, running
from tables import each
from waiting import until

__all__ = ["name_server"]

pytestmark = [pytest.mark.usefixtures("name_server")]

REGISTERED = "https://shop.example/hooks"
every_trick = each("trick", [*HOSTILE, "unparsed"])


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service in production, whose workers the tests run themselves."""
    async with running(database, workers=False) as service:
        yield service


def urls_of(trick: str) -> tuple[str, ...]:
    """Return the URLs of a trick."""
    return HOSTILE.get(trick, UNPARSED)


def fault(reply: Reply) -> str:
    """Return the one detail of a refusal, whose body has the documented shape."""
    (listed,) = reply.body["errors"]
    assert (reply.status, listed["code"]) == (400, "property_value"), reply.raw
    (detail,) = listed["details"]
    assert {name: reply.body[name] for name in ("error", "status")} == {"error": "property_value", "status": 400}
    assert detail.startswith("'$.url' - must "), detail
    return str(detail)


async def subscribed(owner: Operator, url: str = REGISTERED) -> dict[str, Any]:
    """Subscribe the application; return the document."""
    body = {"client_id": owner.service.scene.application.application_id, "url": url}
    return await owner.did("POST", "subscriptions", body)


def test_the_table_is_long() -> None:
    """Each URL once, at least forty."""
    every = [url for urls in HOSTILE.values() for url in urls] + list(UNPARSED)
    assert len(every) == len(set(every)) > 100


@every_trick
async def test_hostile_url_is_refused_at_registration(service: Service, owner: Operator, trick: str) -> None:
    """With the documented error; nothing is connected to, stored or audited."""
    with connections() as made:
        for url in urls_of(trick):
            body = {"client_id": service.scene.application.application_id, "url": url}
            fault(await owner.ask("POST", "subscriptions", body))
    assert [address for address in made if not service.base_url.endswith(f":{address[1]}")] == []
    assert (await owner.did("GET", "subscriptions"))["data"] == []
    assert await audited(service) == []


@every_trick
async def test_hostile_url_is_refused_at_a_change(service: Service, owner: Operator, trick: str) -> None:
    """With the same error; the subscription keeps its URL."""
    made = await subscribed(owner)
    path = f"subscriptions/{made['id']}"
    for url in urls_of(trick):
        fault(await owner.ask("PATCH", path, {"url": url}))
        fault(await owner.ask("PATCH", path, {"url": url, "actions": ["order.failed"]}))
    after = await owner.did("GET", path)
    assert (after["url"], after["actions"]) == (REGISTERED, [])
    assert {line.action for line in await audited(service)} == {"subscriptions.create"}


@pytest.mark.parametrize("trick", HOSTILE)
async def test_hostile_url_is_refused_at_the_connection(database: Database, clock: MovableClock, trick: str) -> None:
    """Even if it is in the database: the attempt fails with a reason, and no connection begins."""
    resolver = CheckedResolver(loopback_allowed=False)
    async with scene.worker(database, clock, resolver=resolver) as worker:
        orders = {}
        for url in urls_of(trick):
            subscription_id, _ = await scene.subscribe(database, url)
            orders[url] = subscription_id
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        with connections() as made:
            while await scene.step(worker):
                pass
        assert made == []
        found = {one.subscription_id: one for one in await scene.deliveries(database, order)}
        for url, subscription_id in orders.items():
            (attempt,) = await scene.attempts(database, found[subscription_id].delivery_id)
            assert (found[subscription_id].status, attempt.answer_status) == ("pending", None), url
            assert attempt.error, url


async def test_receiver_in_a_private_network_that_is_named(
    database: Database, name_server: dict[str, tuple[str, ...]]
) -> None:
    """It is accepted, changed and connected to; its neighbours, this machine and metadata are refused as before."""
    networks = ("10.0.0.0/24", "127.0.0.0/8", "169.254.0.0/16", "100.64.0.0/10")
    settings = Settings(webhook_private_networks=networks)
    name_server["moving.example"] = (PRIVATE,)
    refused = ["https://10.0.1.1/", "https://127.0.0.1/", "https://metadata.google.internal/", "https://localhost/",
               "https://100.100.100.200/", "https://[::ffff:10.0.0.1]/", "https://[fd00::1]/", "http://10.0.0.1/",
               "https://10.0.0.1:8080/", "https://me@10.0.0.1/"]  # fmt: skip
    async with running(database, workers=False, settings=settings) as service:
        owner = await operator(service)
        made = await subscribed(owner, "https://moving.example/")
        for url in refused:
            fault(await owner.ask("PATCH", f"subscriptions/{made['id']}", {"url": url}))
        name_server["moving.example"] = ("169.254.169.254",)
        async with Sender.of(settings, loopback_allowed=False) as sender:
            with connections() as connected:
                assert (await sender.send(URL("https://moving.example/"), {}, b"")).refused is not None
                assert connected == []
                sending = asyncio.create_task(sender.send(URL("https://intranet.example/"), {}, b""))
                await until(lambda: connected == [(PRIVATE, 443)])
                sending.cancel()


async def test_name_that_moves_after_the_check_is_refused_at_the_connection(
    service: Service, owner: Operator, name_server: dict[str, tuple[str, ...]], clock: MovableClock
) -> None:
    """DNS rebinding: public at registration and change, private at the attempt. There is an operator event."""
    made = await subscribed(owner)
    await owner.did("PATCH", f"subscriptions/{made['id']}", {"url": "https://shop.example/moved"})
    name_server["shop.example"] = (PRIVATE,)
    await service.database.write(
        lambda tx: tx.run("UPDATE subscriptions SET application_id = $1", scene.APPLICATION)  # that of the event
    )
    order = scene.order_id()
    await scene.announce(service.database, clock.now_ms(), order)
    resolver = CheckedResolver(loopback_allowed=False)
    async with scene.worker(service.database, clock, resolver=resolver) as worker:
        with connections() as connected:
            assert await scene.step(worker) == 1
    assert connected == []
    (delivery,) = await scene.deliveries(service.database, order)
    (attempt,) = await scene.attempts(service.database, delivery.delivery_id)
    assert attempt.error == f"shop.example is at {PRIVATE}, which is not a public address"
    (event,) = (await owner.did("GET", "events"))["data"]
    assert (event["kind"], event["subject"]) == ("webhook_address_refused", made["id"])


async def test_one_lookup_decides_an_attempt(database: Database, clock: MovableClock) -> None:
    """The address that was checked is connected to: a name server that changes its answer is not asked again."""
    answers, asked = iter([("127.0.0.1",), (PRIVATE,)]), []

    def lookup(host: str, port: int) -> Any:
        asked.append(host)
        return rows_of(next(answers), port)

    resolver = CheckedResolver(loopback_allowed=True, lookup=lookup)
    async with scene.worker(database, clock, resolver=resolver) as worker:
        await scene.subscribe(database, "http://shop.example:9/")  # In development; the port is closed.
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        with connections() as made:
            assert await scene.step(worker) == 1
    assert (asked, made) == (["shop.example"], [("127.0.0.1", 9)])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_is_not_followed(database: Database, clock: MovableClock, status: int) -> None:
    """Not even to an allowed address."""
    async with scene.receiver() as inner, scene.receiver() as outer, scene.worker(database, clock) as worker:
        outer.answer = scene.failing(status, {"Location": inner.url})
        await scene.subscribe(database, outer.url)
        await scene.announce(database, clock.now_ms(), scene.order_id())
        assert await scene.step(worker) == 1
    assert (len(outer.got), len(inner.got)) == (1, 0)


async def test_proxies_of_the_environment_are_not_used(
    database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy would resolve the name itself."""
    async with scene.receiver() as proxy, scene.receiver() as receiver:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with scene.worker(database, clock) as worker:
            await scene.subscribe(database, receiver.url)
            await scene.announce(database, clock.now_ms(), scene.order_id())
            assert await scene.step(worker) == 1
    assert (len(proxy.got), len(receiver.got)) == (0, 1)


async def test_public_url_is_accepted(owner: Operator) -> None:
    """By name and by address, on both ports, with a trailing dot and in any case."""
    accepted = (
        REGISTERED,
        "https://SHOP.example:8443/a?b=%C3%A9",
        f"https://{PUBLIC}/",
        "https://[2606:4700::1111]:443/",
        "HTTPS://shop.example/",
    )
    for url in accepted:
        assert (await subscribed(owner, url))["url"] == url
    listed = (await owner.did("GET", "subscriptions"))["data"]
    assert sorted(one["url"] for one in listed) == sorted(accepted)


async def test_name_server_that_does_not_answer_is_a_fault(owner: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request ends after a bounded time; the lookup goes on in a thread of its own."""
    monkeypatch.setattr(urls, "LOOKUP_SECONDS_MAX", 0.05)
    answers = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: answers.wait())
    body = {"client_id": owner.service.scene.application.application_id, "url": REGISTERED}
    reply = await owner.ask("POST", "subscriptions", body)
    answers.set()
    assert fault(reply) == "'$.url' - must have a host that can be resolved"
