"""Accept connections from the listen backlog, several in one iteration of the event loop.

uvloop accepts one connection per iteration. On a busy node an iteration takes milliseconds, so terminals that all
reconnect after a network failure would wait for each other.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import structlog

PAUSE_SECONDS = 0.2
"""Pause after a failed accept, for example without a free file descriptor."""

LOG_SECONDS = 10.0
CLOSE_SECONDS_MAX = 0.5

log = structlog.get_logger("server")


class Listener:
    """A listening socket whose connections are added to the event loop, each with its own protocol."""

    def __init__(
        self, listening: socket.socket, make_protocol: Callable[[], asyncio.Protocol], accepts_per_turn: int
    ) -> None:
        self._listening, self._make_protocol, self._accepts_per_turn = listening, make_protocol, accepts_per_turn
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[object]] = set()
        self._resuming: asyncio.TimerHandle | None = None
        self._logged_at = -LOG_SECONDS
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)

    async def close(self) -> None:
        """Accept the whole backlog, close the socket, and wait until each accepted connection has its protocol.

        The system resets connections that are in the backlog when the socket closes, so nothing is awaited between the
        accept that finds it empty and the close.
        """
        until = self._loop.time() + CLOSE_SECONDS_MAX
        while self._accept() == self._accepts_per_turn and self._loop.time() < until:  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0)
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._listening)
        self._listening.close()
        await self._wait_for_connecting()

    async def _wait_for_connecting(self) -> None:
        """Wait until each accepted connection has its protocol."""
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def _accept(self) -> int:
        """Accept waiting connections, at most `accepts_per_turn`; return how many."""
        for count in range(self._accepts_per_turn):
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return count
            except ConnectionAbortedError:
                continue  # The client has disconnected already.
            except OSError as error:
                self._pause(error)
                return count
            self._connect(connection)
        return self._accepts_per_turn

    def _connect(self, connection: socket.socket) -> None:
        task: asyncio.Task[object] = self._loop.create_task(
            self._loop.connect_accepted_socket(self._make_protocol, connection)
        )
        self._connecting.add(task)
        task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[object]) -> None:
        self._connecting.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("connection_failed", reason=str(task.exception()))

    def _pause(self, error: OSError) -> None:
        """Stop accepting for a moment: the socket stays readable, and the loop would spin."""
        if self._resuming is not None:
            return
        self._loop.remove_reader(self._listening)
        self._resuming = self._loop.call_later(PAUSE_SECONDS, self._resume)
        now = self._loop.time()
        if now >= self._logged_at + LOG_SECONDS:
            self._logged_at = now
            log.error("accept_paused", reason=error.strerror or str(error), retried_after_seconds=PAUSE_SECONDS)

    def _resume(self) -> None:
        self._resuming = None
        self._loop.add_reader(self._listening, self._accept)
