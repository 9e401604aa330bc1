"""uvicorn, with what it lacks: deadlines for a request's head and body, limits on its head, refusals as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from paydesk.errors import (
    BAD_REQUEST,
    HEADERS_TOO_LARGE,
    REQUEST_TIMEOUT,
    SERVICE_UNAVAILABLE,
    URI_TOO_LONG,
    ErrorKind,
)
from paydesk.http.reply import encode, request_id
from paydesk.http.shared import error_body
from paydesk.settings import Settings

URL_BYTES_MAX = 8 * 1024
HEADER_FIELDS_MAX = 100
HEADER_BYTES_MAX = 16 * 1024
HEAD_BYTES_MAX = URL_BYTES_MAX + HEADER_BYTES_MAX + 1024
SWEEP_SECONDS = 0.25
DRAIN_SECONDS = 3
BACKLOG = 2048


class _HeadRefused(Exception):
    """Raised in a callback of the parser, which then stops."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection that must send its head and its body in time, within limits."""

    head_seconds: float
    body_seconds: float
    connections_max: int

    _deadline: float | None = None
    _refusal: ErrorKind | None = None
    _head_bytes = 0
    _in_head = True
    _header_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A new connection: it has as long for its first head as any."""
        super().connection_made(transport)  # type: ignore[arg-type]  # as uvicorn has it
        self._deadline = self.loop.time() + self.head_seconds
        if len(self.connections) > self.connections_max:
            self._refuse(SERVICE_UNAVAILABLE)

    def data_received(self, data: bytes) -> None:
        """Parse what came, and stop at a head that never ends."""
        if self.transport.is_closing():
            return
        self._head_bytes += len(data) if self._in_head else 0
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse(HEADERS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """The first byte of a request: its head has a deadline from now."""
        super().on_message_begin()
        self._in_head, self._header_bytes = True, 0
        self._deadline = self.loop.time() + self.head_seconds

    def on_url(self, url: bytes) -> None:
        """A part of the URL."""
        super().on_url(url)
        if len(self.url) > URL_BYTES_MAX:
            self._stop_parsing(URI_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field."""
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > HEADER_BYTES_MAX or len(self.headers) > HEADER_FIELDS_MAX:
            self._stop_parsing(HEADERS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """The head is whole: the body has a deadline from now."""
        self._in_head, self._head_bytes = False, 0
        self._deadline = self.loop.time() + self.body_seconds
        if sum(name == b"content-length" for name, _ in self.headers) > 1:
            self._stop_parsing(BAD_REQUEST)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole; it can't be late any more."""
        self._deadline = None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser could not read, in our own shape."""
        del msg
        self._refuse(self._refusal or BAD_REQUEST)

    def check_deadline(self, now: float) -> None:
        """Close a connection that has been too slow."""
        if self._deadline is None or now < self._deadline or self.transport.is_closing():
            return
        if self._in_head and not self._head_bytes:
            self.transport.close()  # Nothing was asked, so nothing is answered.
        else:
            self._refuse(REQUEST_TIMEOUT)

    def _stop_parsing(self, kind: ErrorKind) -> None:
        self._refusal = kind
        raise _HeadRefused

    def _refuse(self, kind: ErrorKind) -> None:
        """Answer and close; a request that is being answered already is only cut off."""
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            url, headers = getattr(self, "url", b""), dict(getattr(self, "headers", None) or ())
            surface = "token" if url.startswith(b"/oauth/") else "application"
            body = encode(error_body(surface, kind.because("refused by the server")))
            identity = request_id(headers.get(b"x-request-id", b"").decode("latin-1"))
            self.transport.write(
                STATUS_LINE[kind.status]
                + b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
                + b"x-request-id: %s\r\nconnection: close\r\n\r\n" % identity.encode()
                + body
            )
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


class _Server(uvicorn.Server):
    """uvicorn's server, whose signals are handled by whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    def sweep(self) -> None:
        """Look at every connection's deadline."""
        now = asyncio.get_running_loop().time()
        for connection in tuple(self.server_state.connections):
            if isinstance(connection, BoundedProtocol):
                connection.check_deadline(now)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


async def serve(
    app: Any, listener: socket.socket, settings: Settings, ready: Callable[[], None], stop: asyncio.Event
) -> None:
    """Serve `app` on a listening socket until `stop`; requests under way have three seconds to end."""
    protocol = type(
        "Protocol",
        (BoundedProtocol,),
        {
            "head_seconds": settings.head_timeout_seconds,
            "body_seconds": settings.body_timeout_seconds,
            "connections_max": settings.connections_max,
        },
    )
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    server = _Server(config)
    watching = asyncio.create_task(_watch(server, ready, stop))
    try:
        await server.serve(sockets=[listener])
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(server: _Server, ready: Callable[[], None], stop: asyncio.Event) -> None:
    # uvicorn sets a flag, not an event.
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    ready()
    while not stop.is_set():
        server.sweep()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), SWEEP_SECONDS)
    server.should_exit = True
