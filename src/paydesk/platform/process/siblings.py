"""The processes of a node with several: one asks all others, through the channels that all have to the supervisor."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from struct import Struct
from typing import NamedTuple

from paydesk.core import runtime

ANSWER_SECONDS_MAX = 1.0
BODY_BYTES_MAX, HELD_BYTES_MAX = 4 * 1024 * 1024, 16 * 1024 * 1024
"""Of a frame, and of all frames for a peer that does not read; further ones are dropped."""

READY = b"READY"
"""What a process sends first. One of an earlier version sends `ready`, and ends when it gets a frame."""

QUESTION, ANSWER = 1, 2
_HEAD = Struct("!BHdI")


class Frame(NamedTuple):
    """A question, or its answer, to or from the process of a slot: the supervisor passes it on and sets `number`."""

    kind: int
    number: int
    asked: float
    """By the monotonic clock, which all processes share."""
    body: bytes = b""


class Channel:
    """An end of the socket pair between a process and the supervisor. It never waits for a peer that does not read."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self._reader, self._writer = streams

    def write(self, sent: bytes) -> None:
        """Send this, or drop it if the peer does not read: the process that asks has a deadline."""
        transport = self._writer.transport
        if not transport.is_closing() and transport.get_write_buffer_size() <= HELD_BYTES_MAX:
            transport.write(sent)

    def send(self, frame: Frame) -> None:
        """Send a frame, or drop it, also if it is too large."""
        if len(frame.body) <= BODY_BYTES_MAX:
            self.write(_HEAD.pack(*frame[:3], len(frame.body)) + frame.body)

    async def first(self) -> bytes:
        """Wait for what a process sends first, which is nothing if it ends."""
        return await self._reader.read(len(READY))

    async def read(self, take: Callable[[Frame], None]) -> None:
        """Pass on the frames of the peer until it closes the channel or sends one that is too large, then close it."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                kind, number, asked, size = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
                if size > BODY_BYTES_MAX:
                    break
                take(Frame(kind, number, asked, await self._reader.readexactly(size)))
        self.close()

    def close(self) -> None:
        """Close it at once, also if the peer has not read everything."""
        self._writer.transport.abort()


class Siblings:
    """The siblings of this process, which is the `number`th of `count`. A process without a supervisor has none."""

    def __init__(self, number: int | None = None, count: int = 1, end: socket.socket | None = None) -> None:
        self.number, self.count = number, count
        self._end, self._is_ready = end, False
        self._channel: Channel | None = None
        self._questions = dict[float, tuple[list[str], asyncio.Event]]()
        """The answers to each, by the time it was asked, and whether they are complete."""

    @asynccontextmanager
    async def answering(self, answer: Callable[[], str], stop: asyncio.Event) -> AsyncIterator[None]:
        """Answer questions until the end of the block. Set `stop` when the supervisor closes the channel or dies."""
        if self._end is None:
            yield
            return
        self._channel = channel = Channel(await asyncio.open_unix_connection(sock=self._end))
        reading = asyncio.create_task(channel.read(partial(self._take, channel, answer)))
        reading.add_done_callback(lambda _: self._ended(stop))
        try:
            yield
        finally:
            channel.close()
            await reading

    def ready(self) -> None:
        """Report to the supervisor that this process accepts connections. Only now may it ask."""
        if self._channel is not None:
            self._channel.write(READY)
            self._is_ready = True

    async def ask(self) -> list[str]:
        """Return the answers of the siblings, without those that do not answer within `ANSWER_SECONDS_MAX`."""
        if self._channel is None or not self._is_ready or self.count == 1:
            return []
        asked, answers, complete = runtime.monotonic(), list[str](), asyncio.Event()
        self._questions[asked] = answers, complete
        self._channel.send(Frame(QUESTION, 0, asked))
        with suppress(TimeoutError):
            await asyncio.wait_for(complete.wait(), ANSWER_SECONDS_MAX)
        del self._questions[asked]
        return answers

    def _take(self, channel: Channel, answer: Callable[[], str], frame: Frame) -> None:
        # A question that waited while this process was stopped gets no answer.
        if frame.kind == QUESTION and runtime.monotonic() < frame.asked + ANSWER_SECONDS_MAX:
            # Not in this turn: if it fails, the channel stays.
            asyncio.get_running_loop().call_soon(_answer, channel, frame, answer)
        elif frame.kind == ANSWER and frame.asked in self._questions:
            answers, complete = self._questions[frame.asked]
            answers.append(frame.body.decode())
            if len(answers) == self.count - 1:
                complete.set()

    def _ended(self, stop: asyncio.Event) -> None:
        self._channel = None
        for _, complete in self._questions.values():
            complete.set()
        stop.set()


def _answer(channel: Channel, question: Frame, answer: Callable[[], str]) -> None:
    channel.send(question._replace(kind=ANSWER, body=answer().encode()))
