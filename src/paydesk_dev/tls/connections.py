"""Accept connections with TLS, for `paydesk dev --tls`: a TLS handshake is limited like the head of a request."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from paydesk.platform.http.server.connection import BoundedProtocol
from paydesk.platform.http.server.evictable import LINGER_SECONDS
from paydesk.platform.http.server.listener import LOG_SECONDS, Listener

HANDSHAKES_END_SECONDS = 0.5
"""At shutdown, unfinished handshakes may complete for this long."""

REASONS = {
    "HTTP_REQUEST": "The client sent http to the https port.",
    "TLSV1_ALERT_UNKNOWN_CA": "The client does not trust the CA certificate.",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "The client does not trust the CA certificate.",
    "SSLV3_ALERT_BAD_CERTIFICATE": "The client does not trust the CA certificate.",
    "UNSUPPORTED_PROTOCOL": "The client supports no TLS version above 1.1.",
}
"""Messages for the reasons of OpenSSL that developers see most."""

DISCONNECTED = "The client disconnected. It may not trust the CA certificate."

log = structlog.get_logger("server")


class TlsProtocol(BoundedProtocol):
    """A connection that counts in the connection limits from its accept; its TLS handshake has the time of a head.

    The event loop does not report how much of an encrypted answer is unsent. So a client that does not read one long
    answer is disconnected as an idle one, not after `write_timeout_seconds`.
    """

    def begin_handshake(self, handshake: Handshake, client: tuple[str, int]) -> bool:
        """Start the deadline of the handshake; return False if there are too many connections."""
        self.transport, self.client = handshake, client
        self.connections.add(self)
        self.deadline = self.loop.time() + self.limits.head_seconds
        return self.limits.admit(self, len(self.connections))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request: the handshake is complete."""
        self.limits.forget(self)
        super().connection_made(transport)


class Handshake(asyncio.Transport):
    """The transport of a connection until its handshake is complete: the connection can only be aborted."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__({"socket": connection})
        self.task: asyncio.Task[object] | None = None
        self._is_closing = False

    def abort(self) -> None:
        """End the handshake, and so the connection."""
        self._is_closing = True
        if self.task is not None:
            self.task.cancel()

    def close(self) -> None:
        """End the handshake, and so the connection."""
        self.abort()

    def is_closing(self) -> bool:
        """Return whether the connection was aborted."""
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        """Return 0: no answer can be pending."""
        return 0


class TlsListener(Listener):
    """A listening socket whose connections are added to the event loop after a TLS handshake."""

    def __init__(
        self,
        listening: socket.socket,
        make_protocol: Callable[[], TlsProtocol],
        accepts_per_turn: int,
        context: ssl.SSLContext,
    ) -> None:
        super().__init__(listening, make_protocol, accepts_per_turn)
        self._make_tls_protocol, self._context = make_protocol, context
        self._quiet_until: dict[str, float] = {}

    async def _wait_for_connecting(self) -> None:
        """Wait for handshakes, and end those that take longer than `HANDSHAKES_END_SECONDS`."""
        if self._connecting:
            _, unfinished = await asyncio.wait(self._connecting, timeout=HANDSHAKES_END_SECONDS)
            for task in unfinished:
                task.cancel()
        await super()._wait_for_connecting()

    def _connect(self, connection: socket.socket) -> None:
        protocol, handshake = self._make_tls_protocol(), Handshake(connection)
        try:
            client = connection.getpeername()[:2]
        except OSError:
            connection.close()  # The client has disconnected already.
            return
        if not protocol.begin_handshake(handshake, client):
            protocol.connection_lost(None)
            connection.close()
            return
        task: asyncio.Task[Any] = self._loop.create_task(
            self._loop.connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=self._context,
                ssl_shutdown_timeout=LINGER_SECONDS,
            )
        )
        handshake.task = task
        self._connecting.add(task)
        task.add_done_callback(lambda ended: self._end_handshake(ended, protocol, handshake, connection))

    def _end_handshake(
        self, task: asyncio.Task[object], protocol: TlsProtocol, handshake: Handshake, connection: socket.socket
    ) -> None:
        self._connecting.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            reason = getattr(error, "reason", None) or ""
            message = REASONS.get(reason) or reason or str(error) or type(error).__name__
            if isinstance(error, ConnectionError):
                message = DISCONNECTED  # Some clients send no alert.
            now = self._loop.time()
            # Each reason is logged at most once in `LOG_SECONDS`.
            if now >= self._quiet_until.get(message, now):
                self._quiet_until[message] = now + LOG_SECONDS
                address = protocol.client[0] if protocol.client else ""
                log.warning("tls_handshake_failed", reason=message, address=address)
        if protocol.transport is handshake:
            # The event loop informs a protocol only of the end of connections that it has added.
            handshake.abort()
            protocol.connection_lost(error if isinstance(error, Exception) else None)
            connection.close()


@dataclass(frozen=True, slots=True)
class Tls:
    """The listening sockets for TLS, and their context."""

    sockets: tuple[socket.socket, ...]
    context: ssl.SSLContext
    protocol: type[BoundedProtocol] = TlsProtocol

    def listeners(self, make_protocol: Callable[[], Any], accepts_per_turn: int) -> list[Listener]:
        """Return a listener for each socket."""
        return [TlsListener(one, make_protocol, accepts_per_turn, self.context) for one in self.sockets]
