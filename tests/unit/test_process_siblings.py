"""The channel between the supervisor and its processes, and the questions of siblings to each other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from moved_time import advance
from paydesk.core import runtime
from paydesk.platform.process import siblings as frames
from paydesk.platform.process.siblings import (
    ANSWER,
    ANSWER_SECONDS_MAX,
    BODY_BYTES_MAX,
    HELD_BYTES_MAX,
    QUESTION,
    READY,
    Channel,
    Frame,
    Siblings,
)
from waiting import until


async def _open(end: socket.socket) -> Channel:
    return Channel(await asyncio.open_unix_connection(sock=end))


@asynccontextmanager
async def _siblings(count: int, stop: asyncio.Event | None = None) -> AsyncIterator[tuple[Siblings, Channel]]:
    """The first of `count` processes, which is ready, and the supervisor's end of its channel."""
    own, theirs = socket.socketpair()
    siblings, supervisor = Siblings(1, count, theirs), await _open(own)
    async with siblings.answering(lambda: "mine", stop or asyncio.Event()):
        siblings.ready()
        assert await supervisor.first() == READY
        yield siblings, supervisor
        supervisor.close()


async def _next(channel: Channel, kind: int) -> Frame:
    """Return the next frame, which is of this kind."""
    kind_read, number, asked, size = frames._HEAD.unpack(await channel._reader.readexactly(frames._HEAD.size))
    assert kind_read == kind
    return Frame(kind, number, asked, await channel._reader.readexactly(size))


async def test_a_process_without_siblings_asks_nobody() -> None:
    """Neither one without a supervisor nor the only one of a supervisor."""
    assert await Siblings().ask() == []
    async with _siblings(1) as (alone, _):
        assert await alone.ask() == []


async def test_the_answers_of_all_siblings_end_a_question() -> None:
    """In the order in which they come."""
    async with _siblings(3) as (siblings, supervisor):
        asked = asyncio.create_task(siblings.ask())
        question = await _next(supervisor, QUESTION)
        for number, body in ((3, "drei µ".encode()), (2, b"two")):
            supervisor.send(Frame(ANSWER, number, question.asked, body))
        assert await asked == ["drei µ", "two"]


async def test_a_silent_sibling_is_left_out_after_a_second() -> None:
    """What it answers later is dropped."""
    async with _siblings(3) as (siblings, supervisor):
        asked = asyncio.create_task(siblings.ask())
        question = await _next(supervisor, QUESTION)
        supervisor.send(Frame(ANSWER, 2, question.asked, b"two"))
        await until(lambda: any(answers for answers, _ in siblings._questions.values()))
        assert not asked.done()
        advance(ANSWER_SECONDS_MAX)
        assert await asked == ["two"]
        supervisor.send(Frame(ANSWER, 3, question.asked, b"late"))
        again = asyncio.create_task(siblings.ask())
        question = await _next(supervisor, QUESTION)
        for number in (2, 3):
            supervisor.send(Frame(ANSWER, number, question.asked, b"now"))
        assert await again == ["now", "now"]


async def test_questions_at_once_do_not_wait_for_each_other() -> None:
    """Each has its own answers."""
    async with _siblings(2) as (siblings, supervisor):
        asked = [asyncio.create_task(siblings.ask()) for _ in range(3)]
        questions = [await _next(supervisor, QUESTION) for _ in asked]
        for number in (2, 0, 1):
            supervisor.send(Frame(ANSWER, 2, questions[number].asked, str(number).encode()))
            assert await asked[number] == [str(number)]


async def test_questions_that_waited_while_a_process_was_stopped_get_no_answer() -> None:
    """The pages that they were for are sent; to answer all would delay the requests of clients."""
    async with _siblings(2) as (_, supervisor):
        stopped = runtime.monotonic() - ANSWER_SECONDS_MAX
        for number in range(1000):
            supervisor.send(Frame(QUESTION, 2, stopped - number))
        supervisor.send(Frame(QUESTION, 3, runtime.monotonic()))
        assert (await _next(supervisor, ANSWER)).number == 3


async def test_a_page_that_fails_ends_no_process(caplog: pytest.LogCaptureFixture) -> None:
    """The sibling that asked leaves it out."""
    own, theirs = socket.socketpair()
    supervisor, stop, pages = await _open(own), asyncio.Event(), iter(["second"])

    def page() -> str:
        if "failed" not in caplog.text:
            raise LookupError("failed")
        return next(pages)

    async with Siblings(1, 2, theirs).answering(page, stop):
        supervisor.send(Frame(QUESTION, 2, runtime.monotonic()))
        await until(lambda: "failed" in caplog.text)
        supervisor.send(Frame(QUESTION, 2, runtime.monotonic()))
        assert (await _next(supervisor, ANSWER)).body == b"second"
        assert not stop.is_set()
    supervisor.close()


async def test_a_process_that_is_not_ready_asks_nobody() -> None:
    """The supervisor reads first that it is ready."""
    own, theirs = socket.socketpair()
    siblings = Siblings(1, 2, theirs)
    with own:
        async with siblings.answering(str, asyncio.Event()):
            assert await siblings.ask() == []
            siblings.ready()
            assert own.recv(16) == READY


@pytest.mark.parametrize("is_reset", [False, True])
async def test_the_end_of_the_supervisor_ends_the_process_and_its_questions(*, is_reset: bool) -> None:
    """At once, also if it dies before it reads what this process sent: then the connection is reset."""
    stop = asyncio.Event()
    async with _siblings(2, stop) as (siblings, supervisor):
        asked = asyncio.create_task(siblings.ask())
        if not is_reset:
            await _next(supervisor, QUESTION)
        supervisor.close()
        assert await asked == []
        await stop.wait()
        assert await siblings.ask() == []


async def test_a_broken_length_ends_the_channel() -> None:
    """Nothing of such a frame is kept. The supervisor replaces the process, and a process ends."""
    stop, (own, theirs) = asyncio.Event(), socket.socketpair()
    with own:
        async with Siblings(1, 2, theirs).answering(str, stop):
            own.send(frames._HEAD.pack(QUESTION, 2, 1.0, BODY_BYTES_MAX + 1))
            await stop.wait()


async def test_an_unknown_kind_of_frame_is_ignored() -> None:
    """A later version may send it."""
    async with _siblings(2) as (_, supervisor):
        supervisor.send(Frame(200, 2, 1.0, b"?"))
        supervisor.send(Frame(QUESTION, 2, runtime.monotonic()))
        assert (await _next(supervisor, ANSWER)).body == b"mine"


async def test_a_peer_that_does_not_read_delays_nothing_and_fills_no_memory() -> None:
    """Further frames for it are dropped, and those that are too large."""
    own, theirs = socket.socketpair()
    with theirs:
        channel = await _open(own)
        transport = channel._writer.transport
        channel.send(Frame(ANSWER, 2, 1.0, bytes(BODY_BYTES_MAX + 1)))
        assert transport.get_write_buffer_size() == 0
        for _ in range(2 * HELD_BYTES_MAX // BODY_BYTES_MAX):
            channel.send(Frame(ANSWER, 2, 1.0, bytes(BODY_BYTES_MAX)))
        assert HELD_BYTES_MAX < transport.get_write_buffer_size() <= HELD_BYTES_MAX + BODY_BYTES_MAX + 16
        channel.close()
        channel.send(Frame(ANSWER, 2, 1.0))
        # Closed at once: what it holds is not sent.
        theirs.setblocking(False)
        await until(lambda: _is_closed(theirs))


def _is_closed(end: socket.socket) -> bool:
    try:
        return not end.recv(1 << 20)
    except BlockingIOError:
        return False
