"""Clients that do not read their answers are disconnected, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest
import structlog
from bench.unread_answers import pipelining

from event_loops import EACH_LOOP, LOOPS, passes_until
from moved_time import advance
from paydesk.platform.http.reply import Reply, send_reply
from paydesk.platform.http.server import server
from paydesk.platform.http.server.connection_limits import RECENT_SECONDS
from paydesk.platform.http.server.evictable import LINGER_RESET, LINGER_SECONDS
from paydesk.platform.http.server.gauges import Gauges
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from raw_http import exchange, head, wire
from service import Service, running
from waiting import until

KIB = 1024
ANSWER_BYTES = 2_000 * KIB
"""More than the system's buffers hold for a client."""

CONNECTS_MAX = 3
UNREAD_SECONDS = 600
"""The time to read, or to send the next request: longer than a test takes, which moves time instead."""
NEVER_SECONDS = 1_000_000
ROUNDS = 3
ORDER = "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3"


@pytest.fixture(params=EACH_LOOP)
def run(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """Run a coroutine on one of the two loops; nothing is logged by the server's libraries."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:

        def run(body: Coroutine[Any, Any, None]) -> None:
            runner.run(body)

        yield run
    assert not [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.WARNING]


async def _answer_much(scope: Any, _receive: Any, send: Any) -> None:
    """The answer is as long as the query says, in KiB, and others run meanwhile."""
    await asyncio.sleep(0)
    size = int(scope["query_string"] or 0) * KIB
    await send_reply(scope, send, Reply(200, b"x" * size), "much")


@contextlib.asynccontextmanager
async def answering(**settings: Any) -> AsyncIterator[tuple[tuple[str, int], Gauges]]:
    """A server whose answers are long; where it listens, and what it does."""
    listening = server.bind("127.0.0.1", 0)
    ready, stop, gauges = asyncio.Event(), asyncio.Event(), Gauges()
    address, chosen = listening.getsockname(), Settings(**settings)
    serving = asyncio.create_task(server.serve(_answer_much, listening, chosen, ready.set, stop, gauges=gauges))
    await ready.wait()
    try:
        yield address, gauges
    finally:
        stop.set()
        await serving


@contextlib.contextmanager
def asking(address: tuple[str, int], request: bytes) -> Iterator[socket.socket]:
    """A client that sends this and reads nothing."""
    with socket.socket() as client:
        # What it reads then makes room at the server soon.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
        client.connect(address)
        client.sendall(request)
        client.setblocking(False)
        yield client


def is_(client: socket.socket, event: int = select.POLLHUP) -> bool:
    """Whether the system says this of a client's connection, that the server has ended it unless something else."""
    looking = select.poll()
    looking.register(client, event)
    return bool(looking.poll(0))


def long_answer(*fields: str, kib: int = ANSWER_BYTES // KIB) -> bytes:
    """A request for an answer that the system's buffers can't hold."""
    return head("GET", f"/?{kib}", *fields)


def test_a_client_that_reads_nothing_is_disconnected(run: Any) -> None:
    """After `write_timeout_seconds`, whether it keeps the connection, pipelines, closes it or has closed its side."""

    async def body() -> None:
        times = {"write_timeout_seconds": UNREAD_SECONDS, "keep_alive_seconds": NEVER_SECONDS}
        async with answering(**times) as (address, gauges):
            for request in (long_answer(), long_answer() * 20, long_answer("Connection: close")):
                with asking(address, b"GET") as earlier, asking(address, request) as client:
                    await until(lambda: (gauges.requests_arriving, gauges.connections_stalled) == (1, 1))
                    advance(0.9 * UNREAD_SECONDS)
                    await until(lambda: is_(earlier, select.POLLIN))
                    assert gauges.connections_stalled == 1
                    await passes_until(lambda: is_(client), UNREAD_SECONDS / 4)
            with asking(address, long_answer()) as client:
                await until(lambda: gauges.connections_stalled == 1)
                client.shutdown(socket.SHUT_WR)
                await passes_until(lambda: is_(client), UNREAD_SECONDS / 4)

    run(body())


def test_a_client_that_reads_slowly_is_disconnected(run: Any) -> None:
    """Less than 4 KiB per timeout is too little."""

    async def body() -> None:
        times = {"write_timeout_seconds": UNREAD_SECONDS, "keep_alive_seconds": NEVER_SECONDS}
        async with answering(**times) as (address, gauges):
            with asking(address, long_answer()) as client:

                def read_one_and_look() -> bool:
                    with contextlib.suppress(OSError):
                        client.recv(1)
                    return is_(client)

                await until(lambda: gauges.connections_stalled == 1)
                await passes_until(read_one_and_look, UNREAD_SECONDS / 10)

    run(body())


def test_a_slow_client_gets_its_answer(run: Any) -> None:
    """It may take longer than `write_timeout_seconds` for all of it, also where the connection is closed behind it."""

    async def body() -> None:
        times = {"write_timeout_seconds": UNREAD_SECONDS, "keep_alive_seconds": NEVER_SECONDS}
        async with answering(**times) as (address, _):
            for field in ("Connection: keep-alive", "Connection: close"):
                with asking(address, long_answer(field)) as client:
                    taken = 0
                    while taken < ANSWER_BYTES:
                        await asyncio.sleep(0.002)
                        with contextlib.suppress(BlockingIOError):
                            part = client.recv(64 * KIB)
                            assert part
                            taken += len(part)
                            advance(2 * UNREAD_SECONDS * len(part) / ANSWER_BYTES)

    run(body())


def test_a_disconnected_pipelining_client_leaves_no_state(run: Any) -> None:
    """Its running and pipelined requests end without a log line."""

    async def body() -> None:
        async with answering() as (address, gauges):
            for kib in (0, 100):
                for linger in (b"", LINGER_RESET):
                    with asking(address, long_answer(kib=kib) * 100) as client:
                        await until(lambda: is_(client, select.POLLIN))
                        if linger:
                            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    await until(lambda: (gauges.connections_open, gauges.requests_running) == (0, 0))

    run(body())


def test_an_idle_connection_ends_although_its_answer_is_unread(run: Any) -> None:
    """A second after it was closed, when `keep_alive_seconds` had passed."""

    async def body() -> None:
        times = {"write_timeout_seconds": NEVER_SECONDS, "keep_alive_seconds": UNREAD_SECONDS}
        async with answering(**times) as (address, gauges):
            with asking(address, b"GET") as earlier, asking(address, long_answer()) as client:
                await until(lambda: (gauges.requests_arriving, gauges.connections_stalled) == (1, 1))
                advance(0.9 * UNREAD_SECONDS)
                await until(lambda: is_(earlier, select.POLLIN))
                assert gauges.connections_stalled == 1
                advance(0.2 * UNREAD_SECONDS)
                await passes_until(lambda: is_(client), LINGER_SECONDS / 4)

    run(body())


def test_stalled_connections_are_evicted_before_idle_ones(run: Any) -> None:
    """The one that has taken none for the longest, and then the one that pipelines, where no connection is spare."""

    async def body() -> None:
        async with answering(connections_max=20) as (address, gauges), contextlib.AsyncExitStack() as stack:
            idle = [await asyncio.open_connection(*address) for _ in range(17)]
            for reader, writer in idle:
                stack.callback(writer.close)
                writer.write(long_answer(kib=0))
                await reader.readuntil(b"\r\n\r\n")
            stalled = [stack.enter_context(asking(address, long_answer())) for _ in range(3)]
            await until(lambda: gauges.connections_stalled == 3)
            advance(2 * RECENT_SECONDS)
            for client in stalled:
                reader, writer = await asyncio.open_connection(*address)
                stack.callback(writer.close)
                writer.write(long_answer(kib=0))
                await reader.readuntil(b"\r\n\r\n")
                await until(partial(is_, client))
            for reader, writer in idle:
                writer.write(long_answer(kib=0))
                await reader.readuntil(b"\r\n\r\n")

    run(body())


@pytest.mark.long("A second process floods the server, so that each wants a core.")
@pytest.mark.parametrize("count", [200])
def test_pipelining_clients_that_never_read_do_not_lock_out_others(
    run: Any, sqlite_url: str, count: int, record_property: Any
) -> None:
    """With twice as many as the connection limit, a persistent connection and every new client are served."""

    async def body() -> None:
        database = await open_database(sqlite_url)
        settings = Settings(connections_max=100)
        async with running(database, settings=settings, workers=False) as service, wire(service) as kept:
            request = head("GET", ORDER, f"Authorization: Bearer {service.access_token}")
            await kept.send(request)
            assert (await kept.answer()).status == 404
            with structlog.testing.capture_logs() as logged:
                with pipelining(service.base_url, count):
                    await until(lambda: len(logged) > count)
                    answered, tried = await _serve_others(service, kept, request)
                await until(lambda: service.gauges.requests_running == 0)
            record_property("answered_of_tried", f"{answered} / {tried}")
            assert answered == tried
            assert len([line for line in logged if line["event"] != "request"]) <= 3
        await database.close()

    run(body())


async def _serve_others(service: Service, kept: Any, request: bytes) -> tuple[int, int]:
    """Ask on a kept connection and on new ones; how many were answered, and how many asked."""
    answered = tried = 0
    for _ in range(ROUNDS):
        tried += 2
        await kept.send(request)
        answered += (await kept.answer()).status == 404
        answered += await _is_served(service, request)
    return answered, tried


async def _is_served(service: Service, request: bytes) -> bool:
    """Return whether a new client is answered; one that is evicted before its request is read connects again."""
    for _ in range(CONNECTS_MAX):
        with contextlib.suppress(ConnectionResetError):
            return (await exchange(service, request)).status == 404
    return False
