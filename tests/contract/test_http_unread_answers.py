"""Clients that do not read their answers are disconnected, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import socket
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

import pytest
import structlog
from bench.unread_answers import pipelining

from event_loops import EACH_LOOP, LOOPS
from paydesk.http import server
from paydesk.http.evictable import LINGER_RESET
from paydesk.http.reply import Reply, send_reply
from paydesk.settings import Settings
from paydesk.storage.connect import open_database
from raw_http import exchange, head, wire
from service import Service, running

KIB = 1024
ANSWER_BYTES = 2_000 * KIB
"""More than the system's buffers hold for a client."""

CONNECTS_MAX = 3
SOON_SECONDS = 4.0
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
    """The answer is as long as the query says, in KiB, and takes a moment."""
    await asyncio.sleep(0.001)
    size = int(scope["query_string"] or 0) * KIB
    await send_reply(scope, send, Reply(200, b"x" * size), "much")


@contextlib.asynccontextmanager
async def answering(**settings: Any) -> AsyncIterator[tuple[str, int]]:
    """A server whose answers are long; where it listens."""
    listening = server.bind("127.0.0.1", 0)
    ready, stop = asyncio.Event(), asyncio.Event()
    address = listening.getsockname()
    serving = asyncio.create_task(server.serve(_answer_much, listening, Settings(**settings), ready.set, stop))
    await ready.wait()
    try:
        yield address
    finally:
        stop.set()
        await serving


@contextlib.contextmanager
def asking(address: tuple[str, int], request: bytes) -> Iterator[socket.socket]:
    """A client that sends this and reads nothing."""
    with socket.create_connection(address) as client:
        client.sendall(request)
        client.setblocking(False)
        yield client


async def ended_after(client: socket.socket) -> float:
    """Seconds until the server has ended the connection. Raises `TimeoutError`."""
    began = time.monotonic()
    looking = select.poll()
    looking.register(client, select.POLLHUP)
    async with asyncio.timeout(2 * SOON_SECONDS):
        while not looking.poll(0):  # noqa: ASYNC110 - only the system knows
            await asyncio.sleep(0.02)
    return time.monotonic() - began


def long_answer(*fields: str, kib: int = ANSWER_BYTES // KIB) -> bytes:
    """A request for an answer that the system's buffers can't hold."""
    return head("GET", f"/?{kib}", *fields)


def test_a_client_that_reads_nothing_is_disconnected(run: Any) -> None:
    """After `write_timeout_seconds`, whether it keeps the connection, pipelines, closes it or has closed its side."""

    async def body() -> None:
        async with answering(write_timeout_seconds=1) as address:
            for request in (long_answer(), long_answer() * 20, long_answer("Connection: close")):
                with asking(address, request) as client:
                    assert 0.9 < await ended_after(client) < SOON_SECONDS
            with asking(address, long_answer()) as client:
                await asyncio.sleep(0.2)
                client.shutdown(socket.SHUT_WR)
                assert await ended_after(client) < SOON_SECONDS

    run(body())


def test_a_client_that_reads_slowly_is_disconnected(run: Any) -> None:
    """Less than 4 KiB per timeout is too little."""

    async def body() -> None:
        async with answering(write_timeout_seconds=1) as address:
            with asking(address, long_answer()) as client:
                await asyncio.sleep(0.2)
                ended = asyncio.create_task(ended_after(client))
                while not ended.done():
                    with contextlib.suppress(OSError):
                        client.recv(1)
                    await asyncio.sleep(0.1)
                assert await ended < SOON_SECONDS

    run(body())


def test_a_slow_client_gets_its_answer(run: Any) -> None:
    """It may take longer than `write_timeout_seconds` for all of it, also where the connection is closed behind it."""

    async def body() -> None:
        async with answering(write_timeout_seconds=1) as address:
            for field in ("Connection: keep-alive", "Connection: close"):
                with asking(address, long_answer(field)) as client:
                    began, taken = time.monotonic(), 0
                    while taken < ANSWER_BYTES:
                        await asyncio.sleep(0.05)
                        with contextlib.suppress(BlockingIOError):
                            part = client.recv(64 * KIB)
                            assert part
                            taken += len(part)
                    assert time.monotonic() - began > 1.2

    run(body())


def test_a_disconnected_pipelining_client_leaves_no_state(run: Any) -> None:
    """Its running and pipelined requests end without a log line."""

    async def body() -> None:
        async with answering() as address:
            for kib in (0, 100):
                for linger in (b"", LINGER_RESET):
                    with asking(address, long_answer(kib=kib) * 100) as client:
                        await asyncio.sleep(0.03)
                        if linger:
                            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    await asyncio.sleep(0.2)

    run(body())


def test_an_idle_connection_ends_although_its_answer_is_unread(run: Any) -> None:
    """A second after it was closed, when `keep_alive_seconds` had passed."""

    async def body() -> None:
        async with answering(write_timeout_seconds=60, keep_alive_seconds=1) as address:
            with asking(address, long_answer()) as client:
                assert 1.9 < await ended_after(client) < SOON_SECONDS

    run(body())


def test_stalled_connections_are_evicted_before_idle_ones(run: Any) -> None:
    """The one that has taken none for the longest, and then the one that pipelines, where no connection is spare."""

    async def body() -> None:
        async with answering(connections_max=20) as address, contextlib.AsyncExitStack() as stack:
            idle = [await asyncio.open_connection(*address) for _ in range(17)]
            for reader, writer in idle:
                stack.callback(writer.close)
                writer.write(long_answer(kib=0))
                await reader.readuntil(b"\r\n\r\n")
            stalled = [stack.enter_context(asking(address, long_answer())) for _ in range(3)]
            await asyncio.sleep(0.5)
            for client in stalled:
                reader, writer = await asyncio.open_connection(*address)
                stack.callback(writer.close)
                writer.write(long_answer(kib=0))
                await reader.readuntil(b"\r\n\r\n")
                assert await ended_after(client) < 2
            for reader, writer in idle:
                writer.write(long_answer(kib=0))
                await reader.readuntil(b"\r\n\r\n")

    run(body())


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
                    answered, tried = await _serve_others(service, kept, request)
                await asyncio.sleep(0.3)
            record_property("answered_of_tried", f"{answered} / {tried}")
            assert tried >= 6
            assert answered == tried
            assert len([line for line in logged if line["event"] != "request"]) <= 3
        await database.close()

    run(body())


async def _serve_others(service: Service, kept: Any, request: bytes) -> tuple[int, int]:
    """Ask on a kept connection and on new ones; how many were answered, and how many asked."""
    answered = tried = 0
    until = time.monotonic() + SOON_SECONDS
    while time.monotonic() < until:
        tried += 2
        await kept.send(request)
        answered += (await kept.answer()).status == 404
        answered += await _is_served(service, request)
        await asyncio.sleep(0.01)
    return answered, tried


async def _is_served(service: Service, request: bytes) -> bool:
    """Return whether a new client is answered; one that is evicted before its request is read connects again."""
    for _ in range(CONNECTS_MAX):
        with contextlib.suppress(ConnectionResetError):
            return (await exchange(service, request)).status == 404
    return False
