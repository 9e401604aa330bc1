"""Frames between the supervisor and its processes, on a socket pair. If either end closes it, the process ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from enum import IntEnum
from struct import Struct
from typing import NamedTuple, Self

import structlog

BODY_BYTES_MAX = 4 * 1024 * 1024
HELD_BYTES_MAX = 16 * 1024 * 1024
"""Frames for a peer that does not read; further ones are dropped."""

READY = b"ready"
"""What a process sends first. Parents of earlier versions read nothing else, and their processes send nothing else."""

log = structlog.get_logger("channel")


class Kind(IntEnum):
    """What a frame is. A peer of a later version may send others, which are ignored."""

    HELLO = 0
    QUESTION = 1
    ANSWER = 2


class Frame(NamedTuple):
    """A question or an answer, to or from the process of a slot: the supervisor passes it on and sets `number`."""

    kind: int
    number: int = 0
    question: int = 0
    body: bytes = b""


_HEAD = Struct("!BHII")
"""The fields of a frame, with the length of its body."""


class Channel:
    """One end of the socket pair. It never waits for a peer that does not read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, end: socket.socket) -> Self:
        """Return the channel of this end, which it takes over."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send_ready(self) -> None:
        """Tell the supervisor that the process accepts connections, and that it reads frames."""
        self._writer.write(READY)
        self.send(Frame(Kind.HELLO))

    async def receive_ready(self) -> bool:
        """Wait until the process accepts connections; return False if it ended instead."""
        try:
            return await self._reader.readexactly(len(READY)) == READY
        except asyncio.IncompleteReadError:
            return False

    def send(self, frame: Frame) -> None:
        """Send a frame, or drop it if it is too large or the peer does not read: whoever asks has a deadline."""
        transport, (kind, number, question, body) = self._writer.transport, frame
        is_held = transport.get_write_buffer_size() > HELD_BYTES_MAX
        if len(body) > BODY_BYTES_MAX:
            log.error("frame_too_large", bytes=len(body), bytes_max=BODY_BYTES_MAX)
        elif not is_held and not transport.is_closing():
            self._writer.write(_HEAD.pack(kind, number, question, len(body)) + body)

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield the frames of the peer until it closes the channel or sends one that is too large."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                kind, number, question, size = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
                if size > BODY_BYTES_MAX:
                    log.error("channel_broken", bytes=size, bytes_max=BODY_BYTES_MAX)
                    return
                yield Frame(kind, number, question, await self._reader.readexactly(size))

    def close(self) -> None:
        """Close it at once, also if the peer has not read everything."""
        self._writer.transport.abort()
