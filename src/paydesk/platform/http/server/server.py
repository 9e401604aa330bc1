"""uvicorn on a listening socket: accepting connections, ending slow ones, and shutting down."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

import structlog
import uvicorn

from paydesk.core.metrics import Labels
from paydesk.platform.http.server.connection import BoundedProtocol
from paydesk.platform.http.server.connection_limits import CONNECTIONS, ConnectionLimits
from paydesk.platform.http.server.gauges import Gauges
from paydesk.platform.http.server.listener import Listener
from paydesk.platform.settings import Settings

SWEEP_SECONDS = 0.25
SWEEP_COUNT, SWEEP_PAUSE_SECONDS = 10, 0.004
DRAIN_SECONDS = 3
QUIET_SECONDS = 0.5
"""Time after the shutdown began in which a connection without a request may send one."""

HSTS = ("strict-transport-security", "max-age=31536000")
"""No includeSubDomains: other hosts of the domain may not support https."""

TICK_SECONDS = 1.0
"""Between renewals of the Date header."""

BACKLOG = 2048
SEND_BUFFER_BYTES = 128 * 1024
ACCEPT_TURNS = 5

log = structlog.get_logger("server")


class Secure(Protocol):
    """Further sockets, whose connections are encrypted. The development kit has one; in production a proxy has TLS."""

    @property
    def protocol(self) -> type[BoundedProtocol]:
        """The class of their connections."""

    def listeners(self, make_protocol: Callable[[], Any], accepts_per_turn: int) -> list[Listener]:
        """Return a listener for each socket."""


class _Server(uvicorn.Server):
    """uvicorn's server, without its handling of signals."""

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits, secure: Secure | None = None) -> None:
        super().__init__(config)
        self.limits, self.secure, self.accepting = limits, secure, asyncio.Event()
        self._next_tick: asyncio.Future[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals."""
        yield

    async def sweep(self) -> None:
        """Check the deadlines of connections, ten at a time, so that other requests are not delayed."""
        now = asyncio.get_running_loop().time()
        connections: Iterable[BoundedProtocol] = self.server_state.connections  # type: ignore[assignment]
        late = [one for one in connections if one.deadline is not None and one.deadline <= now]
        for number, connection in enumerate(late, 1):
            connection.check_deadline(now)
            if number % SWEEP_COUNT == 0:
                await asyncio.sleep(SWEEP_PAUSE_SECONDS)
        for stalled in tuple(self.limits.stalled):
            stalled.check_stalled(now)

    def begin_shutdown(self) -> None:
        """Make every answer from now on the last of its connection."""
        self.limits.draining = self.should_exit = True
        self._wake_up()
        for connection in self.server_state.connections:
            connection.drain()  # type: ignore[union-attr]  # all are BoundedProtocol

    async def main_loop(self) -> None:
        """Renew the Date header once a second, and end at once at shutdown: uvicorn's own checks a flag every 0.1 s."""
        loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            self._next_tick = loop.create_future()
            timer = loop.call_later(TICK_SECONDS, self._wake_up)
            await self._next_tick
            timer.cancel()

    def _wake_up(self) -> None:
        if self._next_tick is not None and not self._next_tick.done():
            self._next_tick.set_result(None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections with `Listener`, not with `create_server` as uvicorn does."""
        accepts_per_turn = self.limits.accepts_per_turn
        make_protocol = self._protocol_maker(self.config.http_protocol_class)
        self.listeners = [Listener(one, make_protocol, accepts_per_turn) for one in sockets or []]
        if self.secure is not None:
            make_protocol = self._protocol_maker(type("Protocol", (self.secure.protocol,), {"limits": self.limits}))
            self.listeners += self.secure.listeners(make_protocol, accepts_per_turn)
        self.started = True
        self.accepting.set()

    def _protocol_maker(self, protocol_class: Any) -> Callable[[], Any]:
        return partial(
            protocol_class, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept the backlog, stop accepting, and wait at most `DRAIN_SECONDS` for running requests."""
        del sockets
        for listener in self.listeners:
            await listener.close()
        await _yield_to_loop()
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self.server_state.connections or self.server_state.tasks:
            if loop.time() > began + QUIET_SECONDS:
                self.limits.close()
            if loop.time() > began + DRAIN_SECONDS:
                log.warning("requests_aborted", count=len(self.server_state.tasks), after_seconds=DRAIN_SECONDS)
                tasks = tuple(self.server_state.tasks)
                for task in tasks:
                    task.cancel()
                for connection in tuple(self.server_state.connections):
                    connection.transport.abort()
                await asyncio.gather(*tasks, return_exceptions=True)
                await _yield_to_loop()
                return
            await asyncio.sleep(0.01)


async def _yield_to_loop() -> None:
    """Let the loop run a few iterations: accepted connections are set up, and aborted ones closed, only then."""
    for _ in range(ACCEPT_TURNS):
        await asyncio.sleep(0)


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a listening socket; port 0 takes a free one, the IPv6 address `::` accepts IPv4 too. Raises `OSError`.

    With `shared` other sockets of this user may listen on the same port (SO_REUSEPORT).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named; without it a body can wait 40 ms for the head's ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Inherited by accepted connections. The system default buffers megabytes for a client that reads nothing.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # Also where the system's default is another.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


async def serve(
    app: Any,
    listener: socket.socket,
    settings: Settings,
    ready: Callable[[], None],
    stop: asyncio.Event,
    secure: Secure | None = None,
    gauges: Gauges | None = None,
) -> None:
    """Serve `app` on a listening socket until `stop`; running requests then have `DRAIN_SECONDS` to finish.

    With `secure` also on its sockets, with the same limits. Then no answer has
    `Strict-Transport-Security`: a browser would refuse the http address of this host for a year. `gauges` count what
    the listener does.
    """
    limits = ConnectionLimits(settings)
    config = uvicorn.Config(
        app,
        http=type("Protocol", (BoundedProtocol,), {"limits": limits}),
        interface="asgi3",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        headers=[HSTS] if secure is None and (settings.public_url or "").startswith("https:") else [],
    )
    server = _Server(config, limits, secure)
    if gauges is not None:
        gauges.read(server.server_state)
    watching = asyncio.create_task(_watch(server, ready, stop))

    def states() -> Mapping[Labels, float]:
        return limits.by_state(len(server.server_state.connections))

    try:
        with CONNECTIONS.including(states):
            await server.serve(sockets=[listener])
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(server: _Server, ready: Callable[[], None], stop: asyncio.Event) -> None:
    await server.accepting.wait()
    ready()
    while not stop.is_set():
        await server.sweep()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), SWEEP_SECONDS)
    server.begin_shutdown()
