"""A supervisor whose processes break the rules of its channel, each in its own way.

`misbehaving_process.py` is the supervisor. Process 1 asks the others again and again, and logs what they answer.
Process 2 stops itself in the middle of an answer, process 3 announces an answer that is too large, process 4 is of an
earlier version, which ends when it gets anything, and process 5 answers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import structlog

from paydesk.platform import logs
from paydesk.platform.process import supervisor
from paydesk.platform.process.siblings import _HEAD, ANSWER, BODY_BYTES_MAX, READY, Channel, Frame, Siblings
from paydesk.platform.settings import Settings

COUNT = 5
log = structlog.get_logger("misbehaving")


async def _asks(end: socket.socket) -> None:
    stop, siblings = asyncio.Event(), Siblings(1, COUNT, end)
    async with siblings.answering(str, stop):
        siblings.ready()
        while not stop.is_set():
            log.info("asked", answers=await siblings.ask())


async def _answers(end: socket.socket) -> None:
    stop, siblings = asyncio.Event(), Siblings(5, COUNT, end)
    async with siblings.answering(lambda: "five", stop):
        siblings.ready()
        await stop.wait()


async def _breaks(end: socket.socket, size: int) -> None:
    """Answer the first question with the beginning of a frame whose body has this size."""
    channel = Channel(await asyncio.open_unix_connection(sock=end))

    def take(question: Frame) -> None:
        channel.write(_HEAD.pack(ANSWER, question.number, question.asked, size) + b"half")
        if size <= BODY_BYTES_MAX:
            os.kill(os.getpid(), signal.SIGSTOP)

    channel.write(READY)
    await channel.read(take)


def _ends_when_it_gets_anything(channel: socket.socket) -> None:
    channel.send(b"ready")
    channel.recv(1)


def main(arguments: list[str]) -> None:
    """Run the supervisor, or a process of it."""
    logs.configure("json")
    if not arguments:
        settings = Settings(
            database_url="postgresql://nowhere/none", listen="127.0.0.1:0", operator_listen="127.0.0.1:0"
        )
        sys.exit(asyncio.run(supervisor.run(settings, (sys.executable, str(Path(__file__))), COUNT)))
    number, channel, *_ = map(int, arguments[arguments.index("--inherit") + 1].split(":"))
    end = socket.socket(fileno=channel)
    match number:
        case 1:
            asyncio.run(_asks(end))
        case 2:
            asyncio.run(_breaks(end, 1000))
        case 3:
            asyncio.run(_breaks(end, BODY_BYTES_MAX + 1))
        case 4:
            _ends_when_it_gets_anything(end)
        case _:
            asyncio.run(_answers(end))


if __name__ == "__main__":
    main(sys.argv[1:])
