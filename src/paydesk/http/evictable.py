"""A connection's state in the room, and its end: by eviction, by a client that takes no answers, or by a close."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import termios
from asyncio import BaseTransport
from collections.abc import Sized
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from paydesk.http.room import Room, State

TAKEN_BYTES_MIN = 4 * 1024
"""A client whose answers wait must take so much in each `write_timeout_seconds`."""

LINGER_SECONDS = 1
LINGER_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: on, for 0 seconds."""


class _Flow(FlowControl):
    """Reads nothing further while requests wait in the pipeline, or a client could fill the memory with them."""

    def __init__(self, transport: Any, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        if self.read_paused and not self._pipeline:
            self.read_paused = False
            self._transport.resume_reading()


class EvictableProtocol(HttpToolsProtocol):
    """A connection of a room, which knows whether it may be ended and by when its client must have acted."""

    room: Room

    deadline: float | None = None
    """By the loop's time."""

    _state: State | None = None
    _running: RequestResponseCycle | None = None
    _idle = False
    _write_deadline = 0.0
    _unsent_bytes = 0

    def enter(self, state: State | None, now: float = 0.0) -> None:
        """Move the connection to `state` of the room, since `now`; to none while a request is under way."""
        if state is self._state:
            return
        if self._state is not None:
            self._state.pop(self, None)
        self._state = state
        if state is not None:
            state[self] = now

    def begin_to_work(self) -> None:
        """A request is under way, and others may wait behind it."""
        if self.flow.write_paused:
            return
        if self.pipeline:
            self.enter(self.room.pipelining, self.loop.time())
        else:
            self.enter(None)

    def connection_made(self, transport: BaseTransport) -> None:
        """A new connection."""
        super().connection_made(transport)  # type: ignore[arg-type]  # as uvicorn has it
        self.flow = _Flow(transport, self.pipeline)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended; uvicorn marks only the request that was parsed last, not the one under way."""
        self.room.forget(self)
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """The client sends nothing more, and the transport closes once what is written has gone out."""
        if self.transport.get_write_buffer_size():
            self.begin_to_stall()

    def pause_writing(self) -> None:
        """Too much is written that the client has not taken."""
        super().pause_writing()
        self.begin_to_stall()

    def resume_writing(self) -> None:
        """The client has taken most of what was written."""
        super().resume_writing()
        if self.transport.is_closing():
            return
        if self._idle:
            self.enter(self.room.idle, self.loop.time())
        else:
            self.begin_to_work()

    def begin_to_stall(self) -> None:
        """Answers wait for the client to take them."""
        now = self.loop.time()
        self.enter(self.room.stalled, now)
        self._expect_taking(now, self._bytes_to_send())

    def check_stalled(self, now: float) -> None:
        """End the connection where its client takes too little."""
        if now < self._write_deadline:
            return
        unsent_bytes = self._bytes_to_send()
        if self._unsent_bytes - unsent_bytes < TAKEN_BYTES_MIN:
            self.room.note("write_timeout", self)
            self.abort()
        else:
            self._expect_taking(now, unsent_bytes)

    def close(self) -> None:
        """Close the connection; a sweep ends it soon after where what is written does not go out."""
        self.deadline = self.loop.time() + LINGER_SECONDS
        self.transport.close()

    def abort(self) -> None:
        """End the connection at once; what the client has not taken of its answers the system forgets too."""
        if self.transport.get_write_buffer_size():
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        self.transport.abort()

    @property
    def _socket(self) -> Any:
        return self.transport.get_extra_info("socket")

    def _expect_taking(self, now: float, unsent_bytes: int) -> None:
        self._write_deadline, self._unsent_bytes = now + self.room.write_seconds, unsent_bytes

    def _bytes_to_send(self) -> int:
        """How much of what was written the client has not taken; some of it is in the system's buffer."""
        waiting: int = self.transport.get_write_buffer_size()
        with contextlib.suppress(OSError):
            (in_system,) = struct.unpack("i", fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4)))
            waiting += in_system
        return waiting
