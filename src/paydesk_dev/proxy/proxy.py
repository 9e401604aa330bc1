"""The proxy of `paydesk dev --proxy`: it carries the bytes of clients of the vendor's hosts to this service.

A client whose address cannot be changed calls Paydesk through it, with `HTTPS_PROXY` alone. It opens connections only
to the TLS listener of its own service, whatever a client asks for.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from http import HTTPStatus

import structlog

from paydesk.core.errors import BAD_REQUEST, HEADERS_TOO_LARGE, REQUEST_TIMEOUT, SERVICE_UNAVAILABLE, Refusal
from paydesk.platform.http.error_body import listed
from paydesk.platform.http.reply import encode
from paydesk.platform.http.server import server
from paydesk.platform.process import node
from paydesk_dev.proxy import requests as proxy_requests

HEAD_BYTES_MAX = 8 * 1024
HEAD_SECONDS_MAX = 5.0
CONNECT_SECONDS_MAX = 5.0
IDLE_SECONDS_MAX = 300.0
"""The longest pause of a tunnel: longer than any answer takes, and than the service keeps an idle connection."""
CONNECTIONS_MAX = 256
CHUNK_BYTES = 64 * 1024
FLUSH_SECONDS_MAX = 2.0
DRAIN_SECONDS = server.DRAIN_SECONDS + 1.0
"""Maximum of the tunnels after a shutdown began: the service ends their connections itself within its own time."""

LOG_SECONDS = 60.0
LOGGED_MAX = 50

_CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_END = b"\r\n\r\n"
_DISCONNECTED = (OSError, RuntimeError)
"""The errors of a stream whose peer has disconnected; uvloop has RuntimeError for one that is closed already."""

Task = asyncio.Task[None]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

log = structlog.get_logger("proxy")


class Proxy:
    """A forward proxy that answers for the vendor's hosts. `service` is the address of this service's TLS listener."""

    def __init__(self, service: tuple[str, int], own_url: str) -> None:
        self._service, self._own_url = service, own_url
        self._connections, self._tunnels, self._refused = set[Task](), set[Task](), set[Task]()
        self._log = RefusalLog()

    async def serve(self, listening: socket.socket, stop: asyncio.Event) -> None:
        """Serve clients on a listening socket until `stop`; the tunnels end with the connections of the service."""
        node.allow_open_files(3 * CONNECTIONS_MAX)  # the two of a tunnel, and that of the service
        accepting = await asyncio.start_server(self._accept, sock=listening, limit=HEAD_BYTES_MAX)
        try:
            await stop.wait()
        finally:
            accepting.close()
            for task in self._connections - self._tunnels:
                task.cancel()
            if self._tunnels:
                await asyncio.wait(self._tunnels, timeout=DRAIN_SECONDS)
            left = tuple(self._connections)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._handle(reader, writer))
        for tasks in (self._connections, self._tunnels, self._refused):
            task.add_done_callback(tasks.discard)
        self._connections.add(task)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client; whatever happens, its connection is closed."""
        try:
            with contextlib.suppress(*_DISCONNECTED):
                await self._answer(reader, writer)
        finally:
            await _close(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, method = asyncio.current_task(), "CONNECT"
        assert task is not None, "every connection has its task"
        try:
            if len(self._connections) - len(self._refused) > CONNECTIONS_MAX:
                raise SERVICE_UNAVAILABLE.with_reason(
                    "too many connections",
                    message=f"More than {CONNECTIONS_MAX} connections are open to this proxy. Close some, and retry.",
                )
            head = await _read_head(reader)
            if head is None:
                return
            request = proxy_requests.parse(head)
            method = request.method
            proxy_requests.check(request, self._own_url)
            upstream = await self._connect()
        except Refusal as refusal:
            self._refused.add(task)
            self._log.note(refusal)
            writer.write(_refused(refusal, has_body=method != "HEAD"))
            await _end_after_refusal(reader, writer)
            return
        self._tunnels.add(task)
        try:
            writer.write(_CONNECTED)
            await _carry((reader, writer), upstream)
        finally:
            await _close(upstream[1])

    async def _connect(self) -> Streams:
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                return await asyncio.open_connection(*self._service, limit=CHUNK_BYTES)
        except OSError as error:  # TimeoutError is one too.
            raise SERVICE_UNAVAILABLE.with_reason(
                f"no connection to the service: {error}",
                message="Paydesk does not accept connections: it is stopping. Start it again, and retry.",
            ) from None


async def _read_head(reader: asyncio.StreamReader) -> bytes | None:
    """Return the head of the request, None if the client disconnects without one. Raises `Refusal`."""
    try:
        async with asyncio.timeout(HEAD_SECONDS_MAX):
            first = await reader.readexactly(1)
            if not first.isalpha():
                raise BAD_REQUEST.with_reason(
                    "not HTTP", message="This proxy speaks HTTP/1.1 without TLS. Its own URL begins with http://."
                )
            return first + await reader.readuntil(_END)
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raise HEADERS_TOO_LARGE.with_reason("the head is too large") from None
    except TimeoutError:
        raise REQUEST_TIMEOUT.with_reason("the head did not arrive in time") from None


def _refused(refusal: Refusal, *, has_body: bool) -> bytes:
    """Return the response. Many clients show nothing of it but the status line, so this one says what to do."""
    status, body = refusal.kind.status, encode(listed(refusal))
    headers = [
        ("content-type", "application/json"),
        ("content-length", str(len(body))),
        ("cache-control", "no-store"),
        ("connection", "close"),
        *refusal.headers,
    ]
    advice = f": {refusal.public_message}" if "target" in refusal.facts else ""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}{advice}", *(f"{name}: {value}" for name, value in headers)]
    head = "\r\n".join(lines).encode("ascii", "replace") + _END
    return head + body if has_body else head


async def _end_after_refusal(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read and discard what the client still sends: closing with unread bytes could destroy the response on its way."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FLUSH_SECONDS_MAX):
            await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
            left = CHUNK_BYTES
            while left > 0 and (discarded := await reader.read(CHUNK_BYTES)):
                left -= len(discarded)


async def _carry(client: Streams, service: Streams) -> None:
    """Copy bytes in both directions until both have ended, one side fails, or nothing moves for too long."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(IDLE_SECONDS_MAX) as idle:

            def moved() -> None:
                idle.reschedule(loop.time() + IDLE_SECONDS_MAX)

            try:
                async with asyncio.TaskGroup() as directions:
                    directions.create_task(_copy(client[0], service[1], moved))
                    directions.create_task(_copy(service[0], client[1], moved))
            except* _DISCONNECTED:
                pass  # The other side is closed by the caller; TLS shows it that the end is missing.


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, moved: Callable[[], None]) -> None:
    while chunk := await source.read(CHUNK_BYTES):
        sink.write(chunk)
        await sink.drain()
        moved()
    sink.write_eof()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close the connection; one whose last bytes are not read in time is aborted."""
    try:
        writer.close()
        async with asyncio.timeout(FLUSH_SECONDS_MAX):
            await writer.wait_closed()
    except _DISCONNECTED:
        pass
    finally:
        writer.transport.abort()


class RefusalLog:
    """Logs refused requests, so that a developer sees which host a program calls; each target once in a minute."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}

    def note(self, refusal: Refusal) -> None:
        """Log the refusal, unless one of the same target or reason was logged a short time ago."""
        now = asyncio.get_running_loop().time()
        facts = dict(refusal.facts) or {"reason": refusal.reason}
        what = next(iter(facts.values()))
        self._logged_at = {key: at for key, at in self._logged_at.items() if now < at + LOG_SECONDS}
        if what in self._logged_at or len(self._logged_at) >= LOGGED_MAX:
            return
        self._logged_at[what] = now
        log.warning("proxy_refused", **facts, message=refusal.public_message)
