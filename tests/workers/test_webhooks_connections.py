"""Connections to receivers are used again for a short time, and deliveries are claimed ahead of their slots."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from yarl import URL

import webhooks_scene as scene
from moved_time import advance
from paydesk.core import runtime
from paydesk.core.clock import MovableClock
from paydesk.engine.webhooks.addresses import CheckedResolver
from paydesk.engine.webhooks.delivery import sending
from paydesk.engine.webhooks.delivery.sending import Sender
from paydesk.platform.storage.database import Database

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers requests; closes a connection without an answer at request number `closes_at` of the connection."""

    def __init__(self, closes_at: int) -> None:
        self.closes_at, self.connections, self.requests = closes_at, 0, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        for number in range(1, 100):
            try:
                await reader.readuntil(b"body")
            except asyncio.IncompleteReadError:
                break
            self.requests += 1
            if number == self.closes_at:
                break
            writer.write(ANSWER)
        writer.close()


@asynccontextmanager
async def serving(closes_at: int) -> AsyncIterator[tuple[Server, URL]]:
    """Run a server on loopback."""
    made = Server(closes_at)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    try:
        yield made, URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hooks")
    finally:
        server.close()


@pytest.fixture(autouse=True)
def _kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep connections for longer than a busy machine needs between two notifications."""
    monkeypatch.setattr(sending, "KEEP_ALIVE_SECONDS", 600)


async def _sent(url: URL, times: int) -> list[bool]:
    async with Sender(CheckedResolver(loopback_allowed=True), timeout_seconds=60, ports=()) as sender:
        return [(await sender.send(url, {}, b"body")).delivered for _ in range(times)]


async def test_a_connection_is_used_again() -> None:
    """Several notifications, one connection."""
    async with serving(closes_at=0) as (server, url):
        assert await _sent(url, 3) == [True] * 3
    assert (server.connections, server.requests) == (1, 3)


async def test_a_notification_that_meets_a_closed_connection_is_sent_on_a_new_one() -> None:
    """The receiver closed it as idle while the request was on its way: no failure."""
    async with serving(closes_at=2) as (server, url):
        assert await _sent(url, 3) == [True] * 3
    assert (server.connections, server.requests) == (3, 5)


async def test_a_new_connection_that_is_closed_without_an_answer_is_a_failure() -> None:
    """It is not sent again within the attempt."""
    async with serving(closes_at=1) as (server, url):
        assert await _sent(url, 1) == [False]
    assert server.requests == 1


class Names:
    """A name server whose answer can be changed; it counts the lookups of each name."""

    def __init__(self, address: str) -> None:
        self.address, self.asked = address, list[str]()

    def lookup(self, host: str, port: int) -> list[tuple[object, ...]]:
        """Return the address as `socket.getaddrinfo` does."""
        self.asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (self.address, port))]


async def test_a_kept_connection_serves_no_other_host() -> None:
    """Also one at the same address and port: another subscription's, or a URL that was changed."""
    names = Names("127.0.0.1")
    async with serving(closes_at=0) as (server, url):
        resolver = CheckedResolver(loopback_allowed=True, lookup=names.lookup)
        async with Sender(resolver, timeout_seconds=60) as sender:
            for host in ("one.test", "two.test", "one.test", "two.test"):
                assert (await sender.send(url.with_host(host), {}, b"body")).delivered
    assert names.asked == ["one.test", "two.test"]
    assert server.connections == 2


async def test_a_name_that_moves_to_a_private_address_gets_nothing_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: a kept connection stays with the address that was checked, and the next one is checked again."""
    monkeypatch.setattr("aiohttp.connector.monotonic", runtime.monotonic)
    names = Names("127.0.0.1")
    async with serving(closes_at=0) as (server, url):
        resolver = CheckedResolver(loopback_allowed=True, lookup=names.lookup)
        async with Sender(resolver, timeout_seconds=60) as sender:
            target = url.with_host("moves.test")
            assert (await sender.send(target, {}, b"body")).delivered
            names.address = "169.254.169.254"
            assert (await sender.send(target, {}, b"body")).delivered
            advance(sending.KEEP_ALIVE_SECONDS + 1)
            moved = await sender.send(target, {}, b"body")
    assert moved.refused is not None
    assert str(moved.refused.address) == "169.254.169.254"
    assert (server.connections, server.requests) == (1, 2)


@pytest.mark.on_postgres
async def test_a_delivery_that_gets_no_slot_in_time_is_released_unsent(
    database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver that was fast hangs: what was claimed ahead has no attempt, and its first one has `X-Retry` 0."""
    monkeypatch.setattr("paydesk.engine.webhooks.delivery.slots.AHEAD_SECONDS_MAX", 0.05)
    gate = asyncio.Event()

    async with scene.receiver() as receiver, scene.worker(database, clock, webhook_concurrency_max=8) as worker:
        await scene.subscribe(database, receiver.url)
        await scene.announce(database, clock.now_ms(), scene.order_id())
        await scene.step(worker)

        async def hang(request: object) -> object:
            await gate.wait()
            return await scene.ok(request)  # type: ignore[arg-type]

        receiver.answer = hang  # type: ignore[assignment]
        orders = [scene.order_id() for _ in range(6)]
        for order in orders:
            await scene.announce(database, clock.now_ms(), order)
        assert await worker.start_due() == 6
        await scene.until(lambda: len(worker._running) == 1)
        unsent = [one for order in orders for one in await scene.deliveries(database, order) if one.attempts == 0]
        assert len(unsent) == 5
        gate.set()
        await worker.settle()
        await scene.step(worker)
    assert {got.headers["X-Retry"] for got in receiver.got} == {"0"}
    assert len(receiver.got) == 7
