"""A connection: uvicorn's, with what it lacks: deadlines for head, body and idleness, limits, refusals as JSON."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from functools import partial
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from paydesk.core.errors import (
    BAD_REQUEST,
    HEADERS_TOO_LARGE,
    REQUEST_TIMEOUT,
    SERVICE_UNAVAILABLE,
    URI_TOO_LONG,
    ErrorKind,
)
from paydesk.http import framing, request_log
from paydesk.http.evictable import LINGER_SECONDS, EvictableProtocol
from paydesk.http.reply import GONE, IN_ONE_PIECE, encode, refusal_headers, request_id
from paydesk.http.request import forwarded_address
from paydesk.http.shared import error_body

URL_BYTES_MAX = 8 * 1024
HEADER_FIELDS_MAX = 100
HEADER_BYTES_MAX = 16 * 1024
HEAD_BYTES_MAX = URL_BYTES_MAX + HEADER_BYTES_MAX + 1024
PARSED_BYTES_MAX = 4 * 1024
"""Of a larger chunk no more is parsed while requests wait in the pipeline, so that few are in memory."""


class _HeadRefused(Exception):
    """Raised in a callback of the parser, which then stops."""


class BoundedProtocol(EvictableProtocol):
    """A connection that must send its head and its body in time, within limits."""

    _refusal: ErrorKind | None = None
    _in_head = False
    _head_bytes = 0
    _header_bytes = 0
    _ended_in_chunk = False
    _refused = False
    _whole_first = True
    _held: Any = None
    _unparsed = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A new connection: it has as long for its first head as any."""
        super().connection_made(transport)
        self.deadline = self.loop.time() + self.room.head_seconds
        if not self.room.admit(self, len(self.connections)):
            self._refuse(SERVICE_UNAVAILABLE)

    def data_received(self, data: bytes) -> None:
        """Parse what came, and stop at a head that never ends."""
        if self._refused or self.transport.is_closing():
            return
        if len(data) > PARSED_BYTES_MAX:
            self._unparsed += data
            self._parse_on()
            return
        self._ended_in_chunk = False
        self._feed(data)
        # How much of a chunk belongs to a head that began in its midst is not known; its next chunk counts.
        self._head_bytes += len(data) if self._in_head and not self._ended_in_chunk else 0
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(HEADERS_TOO_LARGE)

    def _parse_on(self) -> None:
        """Parse what was left of a large chunk, until further requests wait for the one under way."""
        while self._unparsed and not self.pipeline:
            data, self._unparsed = self._unparsed[:PARSED_BYTES_MAX], self._unparsed[PARSED_BYTES_MAX:]
            self.data_received(data)

    def on_message_begin(self) -> None:
        """The first byte of a request: its head has a deadline from now."""
        super().on_message_begin()
        self._in_head, self._head_bytes, self._header_bytes, self._idle = True, 0, 0, False
        self.deadline = self.loop.time() + self.room.head_seconds

    def on_url(self, url: bytes) -> None:
        """A part of the URL."""
        super().on_url(url)
        if len(self.url) > URL_BYTES_MAX:
            self._stop_parsing(URI_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field; one that comes after the body is counted and dropped, it can't speak for the request."""
        self._header_bytes += len(name) + len(value)
        if self._in_head:
            super().on_header(name, value)
        if self._header_bytes > HEADER_BYTES_MAX or len(self.headers) > HEADER_FIELDS_MAX:
            self._stop_parsing(HEADERS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """The head is whole: the body has a deadline from now."""
        version, method = self.parser.get_http_version(), self.parser.get_method()
        lengths = [field for field in self.headers if field[0] in framing.NAMES]
        if (
            version not in framing.VERSIONS
            or method == b"CONNECT"
            or (lengths and not framing.is_clear(lengths, version))
        ):
            self._stop_parsing(BAD_REQUEST)
        self._whole_first = not self.expect_100_continue and (not lengths or framing.is_small(lengths[0]))
        if self.parser.should_upgrade():
            return  # The parser stops here, and the head is read again without the offer.
        earlier = self.cycle
        self.cycle = self._new_cycle(version, method)
        self._in_head = False
        self.deadline = self.loop.time() + self.room.body_seconds
        if earlier is None or earlier.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _new_cycle(self, version: str, method: bytes) -> RequestResponseCycle:
        """Complete the request's scope as uvicorn does, with our extensions."""
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        cycle = RequestResponseCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version == "1.1" and self.parser.should_keep_alive() and not self.room.draining,
            on_response=self.on_response_complete,
        )
        scope: Any = self.scope
        scope["method"], scope["http_version"] = method.decode("ascii"), version
        scope["path"], scope["raw_path"] = unquote(path) if "%" in path else path, url.path
        scope["query_string"] = url.query or b""
        scope["extensions"] = {
            IN_ONE_PIECE: partial(self._send_in_one_piece, cycle),
            GONE: partial(getattr, cycle, "disconnected"),
        }
        return cycle

    def on_message_complete(self) -> None:
        """The request is whole; it can't be late any more."""
        if self.parser.should_upgrade():
            return
        self.deadline, self._ended_in_chunk = None, True
        if self.cycle.response_complete:
            self._begin_to_idle()  # The answer had not waited for the body.
        elif self.pipeline or self.flow.write_paused:
            self.begin_to_work()
        else:
            self.enter(None)
        super().on_message_complete()
        if self._held is not None:
            app, self._held = self._held, None
            super()._start_asgi_task(self.cycle, app)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        # A small request is begun once it is whole: one that stays half costs no more than its bytes.
        if cycle is self.cycle and cycle.more_body and self._whole_first:
            self._held = app
        else:
            super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """An answer has gone out: the next request of a pipeline begins, or the connection idles."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            if self.transport.get_write_buffer_size():
                self.begin_to_stall()
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            self._parse_on()
            self.begin_to_work()
            self.flow.resume_reading()
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.deadline is None:
            self._begin_to_idle()
        elif self._state is not self.room.unfinished and not self.flow.write_paused:
            self.enter(self.room.idle, self.loop.time())  # The next request is here by half.

    def _begin_to_idle(self) -> None:
        now = self.loop.time()
        if not self.flow.write_paused:
            self.enter(self.room.idle, now)
        # A deadline that is swept: a timer of its own for each request costs more.
        self._idle, self.deadline = True, now + self.room.keep_alive_seconds

    def check_deadline(self, now: float) -> None:
        """End a connection that has been too slow."""
        if self.deadline is None or now < self.deadline:
            return
        if self.transport.is_closing():
            self.abort()  # Its last bytes have not gone out.
        elif self._refused or self._idle or not (self._in_head or self.cycle):
            self.close()  # Nothing more was asked, so nothing is answered.
        elif self.pipeline:
            self.deadline = now + self.room.body_seconds  # Nothing is read while earlier requests are under way.
        else:
            self._refuse(REQUEST_TIMEOUT)

    def drain(self) -> None:
        """The server ends: what is under way is answered, and that was the last answer."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False

    def _send_in_one_piece(
        self, cycle: RequestResponseCycle, status: int, headers: list[tuple[str, str]], body: bytes
    ) -> bool:
        """Send a whole answer with one write; what uvicorn does in two steps costs four times as much.

        False, and nothing sent, in the rare case that only those two steps know how to handle.
        """
        if self.flow.write_paused or cycle.disconnected or cycle.response_started or cycle.scope["method"] == "HEAD":
            return False
        assert not any("\r" in value or "\n" in value for _, value in headers), "a header that ends its line"
        defaults = b"".join([b"%s: %s\r\n" % default for default in cycle.default_headers])
        ending = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        self.transport.write(b"".join([STATUS_LINE[status], defaults, _lines(headers), ending, body]))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        # They hold the cycle, whose scope holds them: only the collector of garbage would part the two.
        del cycle.scope["extensions"]
        cycle.on_response()
        return True

    def _feed(self, data: bytes) -> None:
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = self._head_without_offer() + data[offer.args[0] :]
            except httptools.HttpParserError:
                self._refuse(self._refusal or BAD_REQUEST)
                return
            else:
                return

    def _head_without_offer(self) -> bytes:
        """The head as if no other protocol had been offered, for a new parser (RFC 9110 section 7.8).

        The old one takes all that follows for the other protocol, the request's own body too.
        """
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        lines += [b"%s: %s" % field for field in self.headers if field[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        return b"\r\n".join([*lines, b"", b""])

    def _stop_parsing(self, kind: ErrorKind) -> None:
        self._refusal = kind
        raise _HeadRefused

    def _refuse(self, kind: ErrorKind) -> None:
        """Answer what can't be read, and end the connection; an earlier request is answered first."""
        if self._refused:
            return
        if self._in_head and self.cycle is not None and not self.cycle.response_complete:
            self._refused, self.deadline = True, None
            self.cycle.keep_alive = False
            return
        if self.cycle is None or self._in_head or not (self.cycle.response_started or self.pipeline):
            self.transport.write(self._refusal_bytes(kind))
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        # Closed at once, what the client still sends would make its side drop the answer unread.
        self._refused, self.deadline = True, self.loop.time() + LINGER_SECONDS
        self.transport.write_eof()

    def _refusal_bytes(self, kind: ErrorKind) -> bytes:
        url, headers = getattr(self, "url", b""), dict(getattr(self, "headers", None) or ())
        surface = "token" if url.startswith(b"/oauth/") else "application"
        refusal = kind.with_reason("refused by the server")
        body = encode(error_body(surface, refusal))
        sent = headers.get(b"x-request-id", b"").decode("latin-1")
        identity = request_id(sent, checked=self.room.references_checked)
        path = url.partition(b"?")[0].decode("latin-1")
        if kind is not SERVICE_UNAVAILABLE:  # Of these the room says how many there were.
            request_log.write("-", path, kind.status, identity, time.perf_counter(), refusal, self._client_address())
        return (
            STATUS_LINE[kind.status]
            + b"".join([b"%s: %s\r\n" % default for default in self.server_state.default_headers])
            + b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
            + _lines([("x-request-id", identity), *refusal_headers(refusal, surface), ("connection", "close")])
            + b"\r\n"
            + body
        )

    def _client_address(self) -> str:
        """Return the client's address by the header fields that have come so far."""
        fields: Iterable[tuple[bytes, bytes]] = getattr(self, "headers", None) or ()
        forwarded = [value.decode("latin-1") for name, value in fields if name == b"x-forwarded-for"]
        return forwarded_address(self.client[0] if self.client else "", forwarded, self.room.trusted_proxies)


def _lines(headers: Iterable[tuple[str, str]]) -> bytes:
    return "".join([f"{name}: {value}\r\n" for name, value in headers]).encode("latin-1")
