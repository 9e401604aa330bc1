"""A uvicorn connection with deadlines for head, body and idle time, size limits, and errors as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterable
from contextvars import copy_context
from functools import partial
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from paydesk.core import errors, runtime
from paydesk.core.errors import ErrorKind
from paydesk.platform.http import body, request_log
from paydesk.platform.http.asgi import BREAK, DISCONNECTED, IN_ONE_PIECE
from paydesk.platform.http.reply import refused, request_id
from paydesk.platform.http.request import TARGET_HOST, forwarded_address
from paydesk.platform.http.server.evictable import LINGER_SECONDS, EvictableProtocol
from paydesk.platform.http.surfaces import policy_of_path

URL_BYTES_MAX = 8 * 1024
HEADER_FIELDS_MAX = 100
HEADER_BYTES_MAX = 16 * 1024
HEAD_BYTES_MAX = URL_BYTES_MAX + HEADER_BYTES_MAX + 1024
PARSED_BYTES_MAX = 4 * 1024
"""A larger chunk is parsed in such parts and only while no request waits in the pipeline, to bound memory."""

_MAPPED = "::ffff:"
"""The prefix of an IPv4 client's address at a listener of IPv6."""


class _HeadRefused(Exception):
    """Raised in a callback of the parser to stop it."""


class BoundedProtocol(EvictableProtocol):
    """A connection that enforces deadlines and size limits on the head and the body of each request."""

    _refusal: ErrorKind | None = None
    _in_head = _ended_in_chunk = _refused = False
    _head_bytes = _header_bytes = 0
    _whole_first = True
    _may_start_at_once = False
    _deferred_app: Any = None
    _unparsed = b""

    @property
    def is_arriving(self) -> bool:
        """Return whether a part of a request has arrived, and its rest has not."""
        return not self._refused and (self._in_head or (self.cycle is not None and self.cycle.more_body))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the deadline of the first head, and refuse the connection if there are too many."""
        super().connection_made(transport)
        if self.client is not None and self.client[0].startswith(_MAPPED):
            self.client = self.client[0].removeprefix(_MAPPED), self.client[1]
        self.deadline = self.loop.time() + self.limits.head_seconds
        if not self.limits.admit(self, len(self.connections)):
            self._refuse(errors.SERVICE_UNAVAILABLE)

    def data_received(self, data: bytes) -> None:
        """Parse the data; refuse a head that is too large."""
        self._may_start_at_once = True
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        if self._refused or self.transport.is_closing():
            return
        if len(data) > PARSED_BYTES_MAX:
            self._unparsed += data
            self._parse_on()
            return
        self._ended_in_chunk = False
        self._feed(data)
        # The size of the part of a chunk that belongs to a new head is unknown; counting begins with the next chunk.
        self._head_bytes += len(data) if self._in_head and not self._ended_in_chunk else 0
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(errors.HEADERS_TOO_LARGE)

    def _parse_on(self) -> None:
        """Parse the rest of a large chunk while no request waits in the pipeline."""
        while self._unparsed and not self.pipeline:
            data, self._unparsed = self._unparsed[:PARSED_BYTES_MAX], self._unparsed[PARSED_BYTES_MAX:]
            self._parse(data)

    def on_message_begin(self) -> None:
        """Start the deadline of a request's head at its first byte."""
        super().on_message_begin()
        self._in_head, self._head_bytes, self._header_bytes, self._idle = True, 0, 0, False
        self.deadline = self.loop.time() + self.limits.head_seconds

    def on_url(self, url: bytes) -> None:
        """Limit the length of the URL."""
        super().on_url(url)
        if len(self.url) > URL_BYTES_MAX:
            self._stop_parsing(errors.URI_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header field. Trailer fields, which follow the body, are counted and dropped."""
        self._header_bytes += len(name) + len(value)
        if self._in_head:
            # As uvicorn does, without the call of its method for each field.
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))
        if self._header_bytes > HEADER_BYTES_MAX or len(self.headers) > HEADER_FIELDS_MAX:
            self._stop_parsing(errors.HEADERS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """Check the complete head, and start the deadline of the body."""
        version, method = self.parser.get_http_version(), self.parser.get_method()
        lengths = [field for field in self.headers if field[0] in body.FRAMING_HEADERS]
        if method == b"CONNECT" or not body.is_framing_unambiguous(lengths, version):
            self._stop_parsing(errors.BAD_REQUEST)
        self._whole_first = not self.expect_100_continue and (not lengths or body.is_small_length(lengths[0]))
        if self.parser.should_upgrade():
            return  # The parser stops here; `_feed` parses the head again without the upgrade.
        earlier, self.cycle = self.cycle, self._new_cycle(version, method)
        self._in_head = False
        self.deadline = self.loop.time() + self.limits.body_seconds
        if earlier is None or earlier.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _new_cycle(self, version: str, method: bytes) -> RequestResponseCycle:
        """Complete the request's scope as uvicorn does, and add our extensions."""
        url = httptools.parse_url(self.url)
        raw_path = url.path or b"/"
        path = raw_path.decode("ascii")
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
            keep_alive=version == "1.1" and self.parser.should_keep_alive() and not self.limits.draining,
            on_response=self.on_response_complete,
        )
        scope: Any = self.scope
        scope["method"], scope["http_version"] = method.decode("ascii"), version
        scope["path"], scope["raw_path"] = unquote(path) if "%" in path else path, raw_path
        if url.host is not None:
            scope[TARGET_HOST] = url.host.decode("ascii")
        scope["query_string"] = url.query or b""
        scope["extensions"] = {
            IN_ONE_PIECE: partial(self._send_in_one_piece, cycle),
            DISCONNECTED: partial(getattr, cycle, "disconnected"),
            BREAK: self.break_off,
        }
        return cycle

    def on_message_complete(self) -> None:
        """End the deadline of a complete request."""
        if self.parser.should_upgrade():
            return
        self.deadline, self._ended_in_chunk = None, True
        if self.cycle.response_complete:
            self._begin_to_idle()  # The answer was sent before the body was complete.
        elif self.pipeline or self.flow.write_paused:
            self.begin_to_work()
        else:
            self.enter(None)
        super().on_message_complete()
        app, self._deferred_app = self._deferred_app, None
        if app is not None and self._may_start_at_once:
            self._start_at_once(self.cycle, app)
        elif app is not None:
            super()._start_asgi_task(self.cycle, app)

    def _start_at_once(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Run the request up to where it waits. Only the rest needs a task, in the same context.

        Only the first request of what has arrived is run here: with pipelined ones others would wait for too long.
        """
        self._may_start_at_once = False
        steps, context = cycle.run_asgi(app), copy_context()
        try:
            awaited = context.run(steps.send, None)
        except StopIteration:
            return
        task = self.loop.create_task(Rest(steps, awaited), context=context)
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self.transport.is_closing():
            return  # An earlier request of the same data was the last one.
        self._running = cycle
        # A small request starts when it is complete, so that an incomplete one costs no more than its bytes.
        if cycle is self.cycle and cycle.more_body and self._whole_first:
            self._deferred_app = app
        else:
            super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Start the next request of the pipeline after an answer, or let the connection idle."""
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
        self.flow.resume_reading()
        if self.deadline is None:
            self._begin_to_idle()
        elif self._state is not self.limits.unfinished and not self.flow.write_paused:
            self.enter(self.limits.idle, self.loop.time())  # The next request has arrived in part.

    def _begin_to_idle(self) -> None:
        now = self.loop.time()
        if not self.flow.write_paused:
            self.enter(self.limits.idle, now)
        # Deadlines are checked by a periodic sweep: a timer per request costs more.
        self._idle, self.deadline = True, now + self.limits.keep_alive_seconds

    def check_deadline(self, now: float) -> None:
        """Close the connection, or answer 408, after its deadline."""
        if self.deadline is None or now < self.deadline:
            return
        if self.transport.is_closing():
            self.abort()  # Its last bytes were not sent in time.
        elif self._refused or self._idle or not (self._in_head or self.cycle):
            self.close()  # There is no request to answer.
        elif self.pipeline:
            self.deadline = now + self.limits.body_seconds  # Nothing is read while earlier requests run.
        else:
            self._refuse(errors.REQUEST_TIMEOUT)

    def drain(self) -> None:
        """Close the connection after the current answer, because the server ends."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False

    def _send_in_one_piece(
        self, cycle: RequestResponseCycle, status: int, headers: list[tuple[str, str]], body: bytes
    ) -> bool:
        """Send a whole answer with one write; uvicorn's two messages cost four times as much.

        Returns False without sending anything in the rare cases that only the two messages handle.
        """
        if self.flow.write_paused or cycle.disconnected or cycle.response_started or cycle.scope["method"] == "HEAD":
            return False
        lines = _lines(headers)
        assert lines.count(b"\r") == lines.count(b"\n") == len(headers), "a header contains a line break"
        defaults = b"".join([b"%s: %s\r\n" % default for default in cycle.default_headers])
        ending = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        self.transport.write(b"".join([STATUS_LINE[status], defaults, lines, ending, body]))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        # The extensions and the cycle refer to each other; without this only the garbage collector frees them.
        del cycle.scope["extensions"]
        cycle.on_response()
        return True

    def _feed(self, data: bytes) -> None:
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_offer() + data[upgrade.args[0] :]
            except httptools.HttpParserError:
                self._refuse(self._refusal or errors.BAD_REQUEST)
                return
            else:
                return

    def _head_without_offer(self) -> bytes:
        """Return the head without its `Upgrade`, and start a new parser (RFC 9110 section 7.8).

        The old parser takes everything that follows, the request's body too, for the other protocol.
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
        """Answer an unreadable request with an error and close the connection; earlier requests are answered first."""
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
        # Closing at once would reset the connection if the client still sends, and it would lose the answer.
        self._refused, self.deadline = True, self.loop.time() + LINGER_SECONDS
        if self.transport.can_write_eof():  # TLS has no end of one direction.
            self.transport.write_eof()

    def _refusal_bytes(self, kind: ErrorKind) -> bytes:
        url = getattr(self, "url", b"")
        path = url.partition(b"?")[0].decode("latin-1")
        refusal = kind.with_reason("refused by the server")
        reply = refused(refusal, policy_of_path(path))
        identity = request_id("".join(self._received(b"x-request-id")[-1:]), checked=self.limits.references_checked)
        if kind is not errors.SERVICE_UNAVAILABLE:  # `limits` logs the number of these.
            peer, hops = self.client[0] if self.client else "", self._received(b"x-forwarded-for")
            address = forwarded_address(peer, hops, self.limits.trusted_proxies)
            begun, repeated = runtime.monotonic(), self.limits.repeated
            request_log.write("-", path, kind.status, identity, begun, refusal, address, repeated=repeated)
        return (
            STATUS_LINE[kind.status]
            + b"".join([b"%s: %s\r\n" % default for default in self.server_state.default_headers])
            + b"content-type: application/json\r\ncontent-length: %d\r\n" % len(reply.body)
            + _lines([("x-request-id", identity), *reply.headers, ("connection", "close")])
            + b"\r\n"
            + reply.body
        )

    def _received(self, name: bytes) -> list[str]:
        """Return the values of a header field that have been received so far."""
        fields = getattr(self, "headers", None) or ()
        return [value.decode("latin-1") for sent, value in fields if sent == name]


class Rest(Coroutine[Any, Any, None]):
    """The rest of a coroutine that waits for `awaited`, for a task: it waits for that first."""

    __slots__ = ("_awaited", "_steps")

    def __init__(self, steps: Coroutine[Any, Any, None], awaited: object) -> None:
        self._steps, self._awaited = steps, awaited

    def send(self, value: None) -> Any:
        """Run the next step."""
        awaited, self._awaited = self._awaited, None
        return self._steps.send(value) if awaited is None else awaited

    def throw(self, *error: Any) -> Any:
        """Raise the error where the coroutine waits."""
        self._awaited = None
        return self._steps.throw(*error)

    def close(self) -> None:
        """Close the coroutine."""
        self._steps.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._steps.__await__()


def _lines(headers: Iterable[tuple[str, str]]) -> bytes:
    return "".join([f"{name}: {value}\r\n" for name, value in headers]).encode("latin-1")
