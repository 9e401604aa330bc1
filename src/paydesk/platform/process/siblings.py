"""The other processes of a node with several: one asks all, and the supervisor passes questions and answers on."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from paydesk.platform.process.channel import Channel, Frame, Kind

ANSWER_SECONDS_MAX = 1.0


@dataclass(slots=True)
class _Question:
    answers: dict[int, bytes] = field(default_factory=dict)
    """By the number of the process; an empty one says that none runs in that slot."""
    complete: asyncio.Event = field(default_factory=asyncio.Event)


class Siblings:
    """The siblings of this process, which is the `number`th of `count`. A process without a supervisor has none."""

    def __init__(self, number: int = 1, count: int = 1, end: socket.socket | None = None) -> None:
        self.number, self.count = number, count
        self._end = end
        self._channel: Channel | None = None
        self._numbers = itertools.count(1)
        self._questions = dict[int, _Question]()
        self._askers = dict[int, int]()
        """The siblings to answer in the next turn, each with the number of its latest question."""

    def ready(self) -> None:
        """Tell the supervisor that this process accepts connections."""
        if self._channel is not None:
            self._channel.send_ready()

    @asynccontextmanager
    async def answering(self, answer: Callable[[], str], stop: asyncio.Event) -> AsyncIterator[None]:
        """Answer questions until the end of the block. Set `stop` when the supervisor closes the channel or dies."""
        if self._end is None:
            yield
            return
        self._channel = channel = await Channel.open(self._end)
        reading = asyncio.create_task(self._read(channel, answer, stop))
        try:
            yield
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            channel.close()

    async def ask(self) -> list[str]:
        """Return the answers of the siblings, without those that do not answer within `ANSWER_SECONDS_MAX`."""
        if self._channel is None or self.count == 1:
            return []
        number, question = next(self._numbers), _Question()
        self._questions[number] = question
        self._channel.send(Frame(Kind.QUESTION, question=number))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    await question.complete.wait()
        finally:
            del self._questions[number]
        return [answer.decode() for answer in question.answers.values() if answer]

    async def _read(self, channel: Channel, answer: Callable[[], str], stop: asyncio.Event) -> None:
        try:
            async for frame in channel.frames():
                if frame.kind == Kind.QUESTION:
                    if not self._askers:
                        asyncio.get_running_loop().call_soon(self._answer, channel, answer)
                    self._askers[frame.number] = frame.question
                elif frame.kind == Kind.ANSWER:
                    self._note_answer(frame)
        finally:
            self._channel = None
            for question in self._questions.values():
                question.complete.set()
            stop.set()

    def _answer(self, channel: Channel, answer: Callable[[], str]) -> None:
        """Send one answer to each, however many questions came while this process was stopped."""
        askers, self._askers = self._askers, {}
        body = answer().encode()
        for number, question in askers.items():
            channel.send(Frame(Kind.ANSWER, number, question, body))

    def _note_answer(self, frame: Frame) -> None:
        """Take it as the answer to its question and to all before it."""
        for number, question in self._questions.items():
            if number <= frame.question:
                question.answers.setdefault(frame.number, frame.body)
                if len(question.answers) == self.count - 1:
                    question.complete.set()
