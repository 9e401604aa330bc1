"""The channel between the supervisor and its processes, and the questions of siblings to each other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from moved_time import advance
from paydesk.platform.process import channel as frames
from paydesk.platform.process.channel import BODY_BYTES_MAX, HELD_BYTES_MAX, Channel, Frame, Kind
from paydesk.platform.process.siblings import ANSWER_SECONDS_MAX, Siblings
from waiting import until

QUESTION, ANSWER = Kind.QUESTION, Kind.ANSWER


@asynccontextmanager
async def _siblings(count: int, stop: asyncio.Event | None = None) -> AsyncIterator[tuple[Siblings, Channel]]:
    """The first of `count` processes, and the supervisor's end of its channel."""
    own, theirs = socket.socketpair()
    siblings, supervisor = Siblings(1, count, theirs), await Channel.open(own)
    async with siblings.answering(lambda: "mine", stop or asyncio.Event()):
        yield siblings, supervisor
        supervisor.close()


async def _next(channel: Channel) -> Frame:
    """Return the next frame. It closes no generator, which would read no further frame."""
    return await anext(channel.frames())


async def test_a_process_without_siblings_asks_nobody() -> None:
    """Neither one without a supervisor nor the only one of a supervisor."""
    assert await Siblings().ask() == []
    async with _siblings(1) as (alone, _):
        assert await alone.ask() == []


async def test_the_answers_of_all_siblings_end_a_question() -> None:
    """An empty one says that the slot has no process, and is left out."""
    async with _siblings(4) as (siblings, supervisor):
        asked = asyncio.create_task(siblings.ask())
        assert await _next(supervisor) == Frame(QUESTION, 0, 1)
        for number, body in ((4, b"four"), (2, b""), (3, "drei µ".encode())):
            supervisor.send(Frame(ANSWER, number, 1, body))
        assert await asked == ["four", "drei µ"]


async def test_a_silent_sibling_is_left_out_after_a_second() -> None:
    """What it answers later is dropped."""
    async with _siblings(3) as (siblings, supervisor):
        asked = asyncio.create_task(siblings.ask())
        await _next(supervisor)
        supervisor.send(Frame(ANSWER, 2, 1, b"two"))
        await until(lambda: any(question.answers for question in siblings._questions.values()))
        assert not asked.done()
        advance(ANSWER_SECONDS_MAX)
        assert await asked == ["two"]
        supervisor.send(Frame(ANSWER, 3, 1, b"late"))
        again = asyncio.create_task(siblings.ask())
        assert await _next(supervisor) == Frame(QUESTION, 0, 2)
        for number in (2, 3):
            supervisor.send(Frame(ANSWER, number, 2, b"now"))
        assert await again == ["now", "now"]


async def test_questions_at_once_do_not_wait_for_each_other() -> None:
    """An answer is also that to the questions before it, and counts once for each."""
    async with _siblings(3) as (siblings, supervisor):
        asked = [asyncio.create_task(siblings.ask()) for _ in range(3)]
        assert [(await _next(supervisor)).question for _ in asked] == [1, 2, 3]
        supervisor.send(Frame(ANSWER, 2, 1, b"two"))
        supervisor.send(Frame(ANSWER, 2, 3, b"two"))
        supervisor.send(Frame(ANSWER, 3, 2, b"three"))
        assert [await one for one in asked[:2]] == [["two", "three"]] * 2
        assert not asked[2].done()
        supervisor.send(Frame(ANSWER, 3, 3, b"later"))
        assert await asked[2] == ["two", "later"]


async def test_a_process_that_was_stopped_answers_only_the_latest_questions() -> None:
    """What it reads at once gets one answer for each sibling, however many questions waited."""
    async with _siblings(3) as (_, supervisor):
        for question in range(1, 1000):
            supervisor.send(Frame(QUESTION, 2, question))
        supervisor.send(Frame(QUESTION, 3, 7))
        found = [await _next(supervisor)]
        while found[-1] != Frame(ANSWER, 3, 7, b"mine"):
            found.append(await _next(supervisor))
        assert Frame(ANSWER, 2, 999, b"mine") in found
        assert len(found) < 20


@pytest.mark.parametrize("is_reset", [False, True])
async def test_the_end_of_the_supervisor_ends_the_process_and_its_questions(*, is_reset: bool) -> None:
    """At once, also if it dies before it reads what this process sent: then the connection is reset."""
    stop = asyncio.Event()
    async with _siblings(2, stop) as (siblings, supervisor):
        asked = asyncio.create_task(siblings.ask())
        if not is_reset:
            await _next(supervisor)
        supervisor.close()
        assert await asked == []
        await stop.wait()
        assert await siblings.ask() == []


async def test_a_broken_length_ends_the_channel() -> None:
    """Nothing of such a frame is kept. The supervisor replaces the process, and a process ends."""
    stop, own_and_theirs = asyncio.Event(), socket.socketpair()
    own, theirs = own_and_theirs
    siblings = Siblings(1, 2, theirs)
    with capture_logs() as logged, own:
        async with siblings.answering(str, stop):
            own.send(frames._HEAD.pack(QUESTION, 2, 1, BODY_BYTES_MAX + 1))
            await stop.wait()
    assert [(line["event"], line["bytes"]) for line in logged] == [("channel_broken", BODY_BYTES_MAX + 1)]


async def test_an_unknown_kind_of_frame_is_ignored() -> None:
    """A later version may send it."""
    async with _siblings(2) as (_, supervisor):
        supervisor.send(Frame(200, 2, 1, b"?"))
        supervisor.send(Frame(QUESTION, 2, 1))
        assert await _next(supervisor) == Frame(ANSWER, 2, 1, b"mine")


async def test_a_peer_that_does_not_read_delays_nothing_and_fills_no_memory() -> None:
    """Further frames for it are dropped, and those that are too large."""
    own, theirs = socket.socketpair()
    with theirs:
        channel = await Channel.open(own)
        for _ in range(2 * HELD_BYTES_MAX // BODY_BYTES_MAX):
            channel.send(Frame(ANSWER, 2, 1, bytes(BODY_BYTES_MAX)))
        assert channel._writer.transport.get_write_buffer_size() <= HELD_BYTES_MAX + BODY_BYTES_MAX + 16
        with capture_logs() as logged:
            channel.send(Frame(ANSWER, 2, 1, bytes(BODY_BYTES_MAX + 1)))
        assert [line["event"] for line in logged] == ["frame_too_large"]
        channel.close()
        channel.send(Frame(ANSWER, 2, 1))
        # Closed at once: what it holds is not sent.
        theirs.setblocking(False)
        await until(lambda: _is_closed(theirs))


def _is_closed(end: socket.socket) -> bool:
    try:
        return not end.recv(1 << 20)
    except BlockingIOError:
        return False


async def test_a_process_says_that_it_is_ready_in_the_first_bytes() -> None:
    """As processes of earlier versions do, whose parents read at most 16 bytes; then it says that it reads frames."""
    own, theirs = socket.socketpair()
    with own:
        own.setblocking(False)
        channel = await Channel.open(theirs)
        channel.send_ready()
        sent = await asyncio.get_running_loop().sock_recv(own, 16)
        assert sent == b"ready" + frames._HEAD.pack(Kind.HELLO, 0, 0, 0)[: 16 - 5]
        channel.close()
