"""The TLS listener of the server, on uvloop and on asyncio's own loop: handshakes count in the connection limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

from event_loops import EACH_LOOP, LOOPS, passes_until, turns
from moved_time import advance
from paydesk.platform.http.reply import Reply, send_reply
from paydesk.platform.http.server import server
from paydesk.platform.http.server.connection_limits import RECENT_SECONDS
from paydesk.platform.http.server.evictable import LINGER_SECONDS
from paydesk.platform.http.server.gauges import Gauges
from paydesk.platform.settings import Settings
from paydesk_dev.tls import certificates
from paydesk_dev.tls import connections as handshakes
from paydesk_dev.tls.connections import DISCONNECTED, Tls
from waiting import until

HEAD_SECONDS = 50
"""Longer than a test takes, which moves time instead, and shorter than the event loop gives a handshake."""
NEVER_SECONDS = 1_000_000
LARGE_BYTES = 8 << 20
"""More than the system's buffers hold for a client."""
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
HELLO_BEGIN = bytes.fromhex("1603010200010001fc0303")
"""The begin of a ClientHello of 512 bytes."""
REQUEST = b"GET /small HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Serving:
    """A server with an http and an https port, and a client's TLS context that trusts its certificate."""

    http_port: int
    port: int
    trusting: ssl.SSLContext
    logged: list[Any]
    schemes: list[str]
    gauges: Gauges
    _stop: asyncio.Event
    _task: asyncio.Task[None]

    async def end(self) -> None:
        """Stop the server."""
        self._stop.set()
        await self._task

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a TLS connection."""
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trusting)

    async def request(self, sent: bytes = REQUEST) -> tuple[int, dict[str, str], bytes]:
        """Send a request on a TLS connection of its own, and return the status, the headers and the body."""
        reader, writer = await self.connect()
        writer.write(sent)
        answer = await read_answer(reader)
        writer.close()
        return answer

    def open(self, *sent: bytes) -> socket.socket:
        """Open a connection without TLS, and send this."""
        client = socket.create_connection(("127.0.0.1", self.port))
        for part in sent:
            client.sendall(part)
        return client

    def failures(self) -> list[str]:
        """Return the reasons of the handshakes that were logged as failed."""
        return [event["reason"] for event in self.logged if event["event"] == "tls_handshake_failed"]


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Read the next answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status_line, *lines = head.rstrip().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(status_line.split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


async def ended(client: socket.socket) -> None:
    """Wait until the server has ended the connection."""
    loop = asyncio.get_running_loop()
    client.setblocking(False)
    with contextlib.suppress(ConnectionResetError):
        while await loop.sock_recv(client, 1024):
            pass


def is_open(client: socket.socket) -> bool:
    """Return whether the server has sent neither data nor the end of the connection."""
    client.setblocking(False)
    try:
        client.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except ConnectionResetError:
        pass
    return False


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> certificates.Authority:
    """An authority."""
    return certificates.find_or_create(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=EACH_LOOP)
def run(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Run a coroutine on one of the two loops; at the end no task has failed unnoticed."""
    faults: list[Any] = []

    async def body_without_faults(body: Coroutine[Any, Any, None]) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        await body

    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield lambda body: runner.run(body_without_faults(body))
    assert not faults


@contextlib.asynccontextmanager
async def serving(authority: certificates.Authority, folder: Path, **settings: Any) -> AsyncIterator[Serving]:
    """Serve on both ports until the block ends."""
    schemes: list[str] = []

    async def answer(scope: Any, _receive: Any, send: Any) -> None:
        schemes.append(scope["scheme"])
        await send_reply(scope, send, Reply(200, b"x" * LARGE_BYTES if scope["path"] == "/large" else b"{}"), "id")

    plain, secure = server.bind("127.0.0.1", 0), server.bind("127.0.0.1", 0)
    trusting, gauges = ssl.create_default_context(cafile=str(authority.file)), Gauges()
    http_port, port = plain.getsockname()[1], secure.getsockname()[1]
    ready, stop = asyncio.Event(), asyncio.Event()
    tls = Tls((secure,), authority.server_context(folder))
    with structlog.testing.capture_logs() as logged:
        task = asyncio.create_task(server.serve(answer, plain, Settings(**settings), ready.set, stop, tls, gauges))
        await ready.wait()
        try:
            yield Serving(http_port, port, trusting, logged, schemes, gauges, stop, task)
        finally:
            stop.set()
            await task


@pytest.fixture
def start(authority: certificates.Authority, tmp_path: Path) -> Any:
    """Return a function that serves with these settings."""
    return lambda **settings: serving(authority, tmp_path, **settings)


def test_both_ports_have_the_same_application(run: Any, start: Any) -> None:
    """It sees the scheme; a connection with TLS is kept for further requests."""

    async def body() -> None:
        async with start() as service:
            reader, writer = await service.connect()
            for _ in range(3):
                writer.write(REQUEST)
                assert (await read_answer(reader))[0] == 200
            writer.close()
            plain_reader, plain_writer = await asyncio.open_connection("127.0.0.1", service.http_port)
            plain_writer.write(REQUEST)
            assert (await read_answer(plain_reader))[0] == 200
            plain_writer.close()
            assert service.schemes == ["https", "https", "https", "http"]

    run(body())


def test_no_answer_asks_browsers_for_https_only(run: Any, start: Any) -> None:
    """A browser would refuse http on this host for a year, also with a public URL that is https."""

    async def body() -> None:
        async with start(public_url="https://pay.example") as service:
            _, headers, _ = await service.request()
            assert "strict-transport-security" not in headers

    run(body())


def test_a_silent_client_is_disconnected_after_the_time_of_a_head(run: Any, start: Any) -> None:
    """Whether it sends nothing or the begin of a handshake; others are served meanwhile."""

    async def body() -> None:
        async with start(head_timeout_seconds=HEAD_SECONDS) as service:
            with service.open() as first:
                assert (await service.request())[0] == 200
                advance(0.5 * HEAD_SECONDS)
                with service.open() as silent, service.open(HELLO_BEGIN) as unfinished:
                    assert (await service.request())[0] == 200
                    advance(0.5 * HEAD_SECONDS)
                    await ended(first)
                    assert is_open(silent)
                    assert is_open(unfinished)
                    advance(0.5 * HEAD_SECONDS)
                    await ended(silent)
                    await ended(unfinished)

    run(body())


def test_http_on_the_https_port_is_closed(run: Any, start: Any) -> None:
    """Many such clients make one log line, which says what happened."""

    async def body() -> None:
        async with start() as service:
            for _ in range(10):
                with service.open(REQUEST) as client:
                    await ended(client)
            assert (await service.request())[0] == 200
            assert service.failures() == ["The client sent http to the https port."]

    run(body())


def test_a_client_that_does_not_trust_the_certificate_is_logged(run: Any, start: Any) -> None:
    """The log line says so: the developer sees only the error of the client. Clients on asyncio send no alert."""

    async def body() -> None:
        async with start() as service:
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.open_connection("127.0.0.1", service.port, ssl=ssl.create_default_context())
            with service.open() as client, pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.to_thread(ssl.create_default_context().wrap_socket, client, server_hostname="localhost")
            await until(lambda: len(service.failures()) == 2, service.failures)
            assert service.failures() == [DISCONNECTED, "The client does not trust the CA certificate."]

    run(body())


def test_silent_connections_do_not_lock_others_out(run: Any, start: Any) -> None:
    """Connections that never begin a handshake count in the limit, and are evicted for new ones."""

    async def body() -> None:
        async with start(connections_max=40, connections_per_address_max=0) as service:
            with contextlib.ExitStack() as opened:
                silent = [opened.enter_context(service.open()) for _ in range(200)]
                # All but those that the limit allows.
                await until(lambda: sum(map(is_open, silent)) == 40)
                assert service.gauges.connections_open == 40
                advance(2 * RECENT_SECONDS)
                for _ in range(20):
                    assert (await service.request())[0] == 200
                    assert service.gauges.connections_open <= 40
                assert 40 - 20 <= sum(map(is_open, silent)) < 40

    run(body())


def test_handshakes_count_in_the_limit_of_their_address(run: Any, start: Any) -> None:
    """At most `connections_per_address_max` of them are open."""

    async def body() -> None:
        async with start(connections_per_address_max=5) as service:
            with contextlib.ExitStack() as opened:
                silent = [opened.enter_context(service.open(HELLO_BEGIN)) for _ in range(12)]
                await until(lambda: sum(map(is_open, silent)) == 5)
                assert service.gauges.connections_open == 5

    run(body())


def test_a_connection_counts_once_in_the_limit_of_its_address(run: Any, start: Any) -> None:
    """Its handshake and its requests are the same connection."""

    async def body() -> None:
        async with start(connections_per_address_max=1) as service:
            for _ in range(3):
                assert (await service.request())[0] == 200
            assert not [event for event in service.logged if event["event"] == "throttled"]

    run(body())


def test_clients_that_reset_the_connection_during_the_handshake_leave_nothing(run: Any, start: Any) -> None:
    """Their places are free again: with a limit of ten, 100 of them do not keep others out."""

    async def body() -> None:
        async with start(connections_max=10) as service:
            for number in range(100):
                client = service.open(*([HELLO_BEGIN] if number % 2 else []))
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                # So many are somewhere in their handshake, others in the backlog.
                await turns(number % 7)
                client.close()
            assert (await service.request())[0] == 200
            await until(lambda: service.gauges.connections_open == 0)
            readers = [await service.connect() for _ in range(10)]
            for reader, writer in readers:
                writer.write(REQUEST)
                assert (await read_answer(reader))[0] == 200
            for _, writer in readers:
                writer.close()
            assert set(service.failures()) <= {DISCONNECTED}

    run(body())


def test_versions_before_tls_1_2_are_refused(run: Any, start: Any) -> None:
    """Such a client gets an alert, and the log says why."""

    async def body() -> None:
        async with start() as service:
            with service.open(_client_hello_of_tls_1_1()) as client:
                await ended(client)
            assert service.failures() == ["The client supports no TLS version above 1.1."]

    run(body())


def _client_hello_of_tls_1_1() -> bytes:
    """Return a ClientHello that offers only TLS 1.1, with one cipher suite of that version."""
    hello = b"\x03\x02" + bytes(32) + b"\x00" + b"\x00\x02\xc0\x09" + b"\x01\x00"
    handshake = b"\x01" + len(hello).to_bytes(3) + hello
    return b"\x16\x03\x01" + len(handshake).to_bytes(2) + handshake


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nbroken\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 40_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: loc", 408),
    ],
)
def test_refusals_of_the_server_are_answered_with_tls(run: Any, start: Any, sent: bytes, status: int) -> None:
    """The client reads the whole answer, and then the connection ends."""

    async def body() -> None:
        async with start(head_timeout_seconds=HEAD_SECONDS) as service:
            reader, writer = await service.connect()
            writer.write(sent)
            if status == 408:
                await until(lambda: service.gauges.requests_arriving == 1)
                advance(HEAD_SECONDS)
            answered, headers, raw = await read_answer(reader)
            assert (answered, headers["connection"]) == (status, "close")
            assert json.loads(raw)["status"] == status
            advance(LINGER_SECONDS)
            assert await reader.read() == b""
            writer.close()

    run(body())


@pytest.mark.parametrize("count", [1, 20], ids=["idle", "pipelining"])
def test_a_client_that_reads_nothing_is_disconnected(run: Any, start: Any, count: int) -> None:
    """As an idle one; after `write_timeout_seconds` if it has sent more requests."""

    async def body() -> None:
        times = {"keep_alive_seconds": 60, "write_timeout_seconds": 60}
        times["write_timeout_seconds" if count == 1 else "keep_alive_seconds"] = NEVER_SECONDS
        async with start(**times) as service:
            with socket.socket() as connecting:
                connecting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
                connecting.connect(("127.0.0.1", service.port))
                client = await asyncio.to_thread(service.trusting.wrap_socket, connecting, server_hostname="localhost")
                with client:
                    client.sendall(REQUEST.replace(b"small", b"large") * count)
                    gauges = service.gauges
                    await until(lambda: gauges.connections_stalled == 1 or (count == 1 and bool(service.schemes)))
                    await passes_until(lambda: gauges.connections_open == 0, 20)
                    assert await asyncio.to_thread(read_to_end, client) < LARGE_BYTES

    run(body())


def read_to_end(client: socket.socket) -> int:
    """Return how many bytes the client gets until its connection ends."""
    client.setblocking(True)
    count = 0
    with contextlib.suppress(ConnectionResetError, ssl.SSLEOFError):
        while received := client.recv(65536):
            count += len(received)
    return count


def test_the_last_answer_of_a_connection_ends_it(run: Any, start: Any) -> None:
    """Also if the client never answers the end of the TLS session."""

    async def body() -> None:
        async with start() as service:
            client = service.open()
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            session = service.trusting.wrap_bio(incoming, outgoing, server_hostname="localhost")
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            while True:
                try:
                    session.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await loop.sock_sendall(client, outgoing.read())
                    incoming.write(await loop.sock_recv(client, 65536))
            session.write(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            await loop.sock_sendall(client, outgoing.read())
            ending = asyncio.create_task(ended(client))
            await until(lambda: bool(service.schemes) and not service.gauges.requests_running)
            advance(LINGER_SECONDS)
            await ending
            client.close()

    run(body())


def test_shutdown_does_not_wait_for_silent_clients(run: Any, start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for handshakes nor for connections without a request; a handshake that completes in time is served."""
    monkeypatch.setattr(handshakes, "HANDSHAKES_END_SECONDS", 600)
    monkeypatch.setattr(server, "QUIET_SECONDS", 600)
    monkeypatch.setattr(server, "DRAIN_SECONDS", NEVER_SECONDS)

    async def body() -> None:
        async with start() as service:
            with service.open() as silent, service.open(HELLO_BEGIN) as unfinished:
                reader, writer = await service.connect()
                connecting = asyncio.create_task(service.request())
                await asyncio.sleep(0)
                ending = asyncio.create_task(service.end())
                assert (await connecting)[0] == 200
                await passes_until(ending.done, 600)
                await ending
                for client in (silent, unfinished):
                    await ended(client)
                assert await reader.read() == b""
                writer.close()
        assert not [event for event in service.logged if event["event"] == "requests_aborted"]

    run(body())


def test_shutdown_completes_running_requests(run: Any, authority: certificates.Authority, tmp_path: Path) -> None:
    """The answer has arrived when the server has ended."""

    async def body() -> None:
        async def slow(scope: Any, _receive: Any, send: Any) -> None:
            started.set()
            # The server has closed its socket, and waits for its requests.
            await until(lambda: secure.fileno() == -1)
            await turns()
            await send_reply(scope, send, Reply(200, b"{}"), "id")

        started, ready, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
        plain, secure = server.bind("127.0.0.1", 0), server.bind("127.0.0.1", 0)
        port, trusting = secure.getsockname()[1], ssl.create_default_context(cafile=str(authority.file))
        tls = Tls((secure,), authority.server_context(tmp_path))
        task = asyncio.create_task(server.serve(slow, plain, Settings(), ready.set, stop, tls))
        await ready.wait()
        reader, writer = await asyncio.open_connection("localhost", port, ssl=trusting)
        writer.write(REQUEST)
        await started.wait()
        stop.set()
        status, headers, _ = await read_answer(reader)
        assert (status, headers["connection"]) == (200, "close")
        writer.close()
        await task

    run(body())
