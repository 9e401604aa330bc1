"""A connection's state for eviction, and its end: evicted, closed, or aborted if the client reads too slowly."""

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

from paydesk.platform.http.server.connection_limits import ConnectionLimits
from paydesk.platform.http.server.connection_state import State

READ_BYTES_MIN = 4 * 1024
"""A client must read this much of its pending answers in each `write_timeout_seconds`."""

LINGER_SECONDS = 1
LINGER_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: on, for 0 seconds."""


class _Flow(FlowControl):
    """Reads nothing more while requests wait in the pipeline, so that a client cannot fill the memory with them."""

    def __init__(self, transport: Any, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        if self.read_paused and not self._pipeline:
            self.read_paused = False
            self._transport.resume_reading()


class EvictableProtocol(HttpToolsProtocol):
    """A connection that tracks whether it can be evicted and by when its client must act."""

    limits: ConnectionLimits

    deadline: float | None = None
    """The deadline in the event loop's time."""

    _state: State | None = None
    _running: RequestResponseCycle | None = None
    _idle = False
    _write_deadline = 0.0
    _unsent_bytes = 0

    @property
    def is_stalled(self) -> bool:
        """Return whether the client does not read its answers."""
        return self._state is self.limits.stalled

    def enter(self, state: State | None, now: float = 0.0) -> None:
        """Move the connection to `state` of the limits, since `now`; to None while a request runs."""
        if state is self._state:
            return
        if self._state is not None:
            self._state.pop(self, None)
        self._state = state
        if state is not None:
            state[self] = now

    def begin_to_work(self) -> None:
        """Leave the idle state: a request runs, and others may wait in the pipeline."""
        if self.flow.write_paused:
            return
        if self.pipeline:
            self.enter(self.limits.pipelining, self.loop.time())
        else:
            self.enter(None)

    def connection_made(self, transport: BaseTransport) -> None:
        """Replace uvicorn's flow control."""
        super().connection_made(transport)  # type: ignore[arg-type]  # as uvicorn has it
        self.flow = _Flow(transport, self.pipeline)

    def connection_lost(self, exc: Exception | None) -> None:
        """Mark the running request as disconnected; uvicorn marks only the request that was parsed last."""
        self.limits.forget(self)
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """Handle the end of the client's data; the transport closes once its buffer is sent."""
        if self.transport.get_write_buffer_size():
            self.begin_to_stall()

    def pause_writing(self) -> None:
        """Start the write deadline: the buffer is full of answers that the client has not read."""
        super().pause_writing()
        self.begin_to_stall()

    def resume_writing(self) -> None:
        """Leave the stalled state: the client has read most of the buffer."""
        super().resume_writing()
        if self.transport.is_closing():
            return
        if self._idle:
            self.enter(self.limits.idle, self.loop.time())
        else:
            self.begin_to_work()

    def begin_to_stall(self) -> None:
        """Enter the stalled state: answers wait for the client to read them."""
        now = self.loop.time()
        self.enter(self.limits.stalled, now)
        self._start_write_deadline(now, self._bytes_to_send())

    def check_stalled(self, now: float) -> None:
        """Abort the connection if its client has read too little by the write deadline."""
        if now < self._write_deadline:
            return
        unsent_bytes = self._bytes_to_send()
        if self._unsent_bytes - unsent_bytes < READ_BYTES_MIN:
            self.limits.note("write_timeout", self)
            self.abort()
        else:
            self._start_write_deadline(now, unsent_bytes)

    def close(self) -> None:
        """Close the connection; a sweep aborts it if its buffer is not sent within `LINGER_SECONDS`."""
        self.deadline = self.loop.time() + LINGER_SECONDS
        self.transport.close()

    def abort(self) -> None:
        """Abort the connection at once, and discard unsent data in the system's buffer too."""
        if self.transport.get_write_buffer_size():
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        self.transport.abort()

    def break_off(self, reset: bool) -> None:  # noqa: FBT001 - an extension of ASGI has no names
        """Break the connection under its running request: reset it, or close it after what was sent."""
        assert self._running is not None, "an application calls it"
        self._running.disconnected = True
        if self.transport.is_closing():
            return
        if not reset:
            self.close()
            return
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        self.transport.abort()

    @property
    def _socket(self) -> Any:
        return self.transport.get_extra_info("socket")

    def _start_write_deadline(self, now: float, unsent_bytes: int) -> None:
        self._write_deadline, self._unsent_bytes = now + self.limits.write_seconds, unsent_bytes

    def _bytes_to_send(self) -> int:
        """Return the number of bytes not yet received by the client, including those in the system's buffer."""
        waiting: int = self.transport.get_write_buffer_size()
        with contextlib.suppress(OSError):
            (in_system,) = struct.unpack("i", fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4)))
            waiting += in_system
        return waiting
