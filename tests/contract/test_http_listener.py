"""Accepting connections, on uvloop and on asyncio's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import struct
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
import structlog

from event_loops import LOOPS, turns
from moved_time import advance
from paydesk.platform.http.server import listener as listeners
from paydesk.platform.http.server.listener import Listener
from paydesk.platform.http.server.server import bind
from waiting import until, wait_until

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
ACCEPTS_PER_TURN = 100
PAUSE_SECONDS = 600


class Clients:
    """Clients of one listening socket, and the connections that were made of them."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self.listening = stack.enter_context(bind("127.0.0.1", 0))
        self._address = self.listening.getsockname()
        self.made: list[Any] = []
        self.faults: list[dict[str, Any]] = []

    def connect(self, count: int) -> list[socket.socket]:
        """Open so many connections, which wait in the backlog."""
        return [self._stack.enter_context(socket.create_connection(self._address)) for _ in range(count)]

    def listen(self, listening: socket.socket | None = None) -> Listener:
        """Begin to accept."""
        clients = self

        class Greeter(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                clients.made.append(transport)

        asyncio.get_running_loop().set_exception_handler(lambda _loop, fault: self.faults.append(fault))
        return Listener(listening or self.listening, Greeter, ACCEPTS_PER_TURN)

    async def wait_for(self, count: int) -> None:
        """Wait until so many connections are made."""
        await until(lambda: len(self.made) >= count)

    async def close(self, *listeners: Listener) -> None:
        """Close the listeners and all connections; nothing has failed."""
        for listener in listeners:
            await listener.close()
        for transport in self.made:
            transport.close()
        await turns()
        assert not self.faults


@pytest.fixture
def clients() -> Iterator[Clients]:
    """A listening socket without a listener yet."""
    with contextlib.ExitStack() as stack:
        yield Clients(stack)


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Run a coroutine on one of the two loops."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:

        def run(body: Coroutine[Any, Any, None]) -> None:
            runner.run(body)

        yield run


def test_the_backlog_is_accepted_in_a_few_loop_iterations(run: Any, clients: Clients) -> None:
    """Twice the limit of one iteration needs two iterations and a few for the set-up, not one each."""

    async def body() -> None:
        count = 2 * ACCEPTS_PER_TURN
        clients.connect(count)
        until_queued(clients.listening, count)
        listener = clients.listen()
        turns, most = 0, 0
        while len(clients.made) < count and turns < 100:
            before = len(clients.made)
            await asyncio.sleep(0)
            turns, most = turns + 1, max(most, len(clients.made) - before)
        assert turns <= 10
        assert most <= ACCEPTS_PER_TURN
        await clients.close(listener)

    run(body())


def test_answers_are_not_delayed_by_the_system(run: Any, clients: Clients) -> None:
    """TCP_NODELAY is set on each connection."""

    async def body() -> None:
        clients.connect(1)
        listener = clients.listen()
        await clients.wait_for(1)
        accepted = clients.made[0].get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await clients.close(listener)

    run(body())


def backlog(listening: socket.socket) -> int:
    """Return the number of connections in the listen backlog: `tcpi_unacked` of a listening socket."""
    unacked: int = struct.unpack_from("I", listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 24)[0]
    return unacked


def until_queued(listening: socket.socket, count: int) -> None:
    """Block the loop, which must not accept meanwhile: the kernel may queue a connection a moment after its client."""
    wait_until(lambda: backlog(listening) >= count, lambda: f"{backlog(listening)} of {count}")


def test_a_closing_listener_accepts_the_backlog(run: Any, clients: Clients) -> None:
    """Connections that arrive in the turn in which it closes are made, not reset, also more than one turn accepts."""

    async def body() -> None:
        listener = clients.listen()
        await asyncio.sleep(0)
        held = clients.connect(ACCEPTS_PER_TURN + 3)
        until_queued(clients.listening, len(held))
        await listener.close()
        assert len(clients.made) == len(held)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(held[0].getpeername())
        await clients.close()

    run(body())


def test_two_listeners_share_a_socket(run: Any, clients: Clients) -> None:
    """During a deployment two processes accept from one socket; what one has taken does not disturb the other."""

    async def body() -> None:
        listeners = [clients.listen(), clients.listen(clients.listening.dup())]
        for count in range(1, 20):
            clients.connect(1)
            await clients.wait_for(count)
        await listeners[0].close()
        clients.connect(1)
        await clients.wait_for(20)
        await clients.close(listeners[1])

    run(body())


def test_clients_that_disconnect_before_the_accept(run: Any, clients: Clients) -> None:
    """They leave no trace, and the next one is accepted."""

    async def body() -> None:
        for gone in clients.connect(20):
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            gone.close()
        clients.connect(1)
        with structlog.testing.capture_logs() as logged:
            listener = clients.listen()
            await clients.wait_for(1)
            await clients.close(listener)
        assert not logged

    run(body())


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pauses end only when time is moved."""
    monkeypatch.setattr(listeners, "PAUSE_SECONDS", PAUSE_SECONDS)
    monkeypatch.setattr(listeners, "LOG_SECONDS", 100 * PAUSE_SECONDS)


@pytest.mark.usefixtures("pauses")
def test_without_file_descriptors_accepting_pauses(run: Any, clients: Clients) -> None:
    """It is tried once a pause and logged once; with a free descriptor, waiting clients are accepted."""

    async def body() -> None:
        clients.connect(3)
        with no_file_descriptor_left(), structlog.testing.capture_logs() as logged:
            tried = CountedAccepts(clients.listening)
            listener = clients.listen(tried)  # type: ignore[arg-type]  # all that a listener uses of a socket
            for pauses in range(1, 5):
                await until(lambda: tried.count == pauses)  # noqa: B023 - it is awaited here
                await turns(50)
                assert tried.count == pauses
                advance(PAUSE_SECONDS)
            assert not clients.made
        assert [line["event"] for line in logged] == ["accept_paused"]
        assert logged[0]["reason"] == os.strerror(errno.EMFILE)
        await clients.wait_for(3)
        await clients.close(listener)

    run(body())


@pytest.mark.usefixtures("pauses")
def test_a_listener_closes_while_accepting_pauses(run: Any, clients: Clients) -> None:
    """Nothing is left behind that would accept from a closed socket."""

    async def body() -> None:
        clients.connect(1)
        with no_file_descriptor_left(), structlog.testing.capture_logs() as logged:
            listener = clients.listen()
            await until(lambda: bool(logged))
            await listener.close()
        advance(2 * PAUSE_SECONDS)
        await clients.close()

    run(body())


class CountedAccepts:
    """A listening socket that counts how often a connection is accepted, or tried to be."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening, self.count = listening, 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        self.count += 1
        return self._listening.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listening, name)


@contextlib.contextmanager
def no_file_descriptor_left() -> Iterator[None]:
    """Until the end of the block this process can open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as lowest:  # noqa: PTH123 - its number is the first free one
        free = lowest.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
