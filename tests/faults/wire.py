"""A wire that a test can spoil: it stands between two ends, on TCP or on PostgreSQL's socket, and carries bytes."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

CHUNK_BYTES = 65_536
SOCKET_NAME = ".s.PGSQL.5432"
AT_ONCE = struct.pack("ii", 1, 0)

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Spoiling = Literal["delay", "cut", "reset", "silence", "half"]
SPOILINGS: tuple[Spoiling, ...] = ("delay", "cut", "reset", "silence", "half")
"""Every chunk comes late · every connection closes · every connection is reset · nothing passes for a while · a chunk
is cut in two, its first half passes and the connection is reset."""


class Wire:
    """Carries what comes to its end to the other end; `spoil` makes it bad for a while."""

    def __init__(self, other_end: Callable[[], Awaitable[Ends]], chance: random.Random) -> None:
        self._other_end = other_end
        self._chance = chance
        self._server: asyncio.AbstractServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self._delay_seconds = 0.0
        self._halving = 0.0

    async def listen_tcp(self) -> int:
        """Listen on loopback; the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def listen_socket(self, folder: Path) -> None:
        """Listen where a driver looks for PostgreSQL's socket."""
        self._server = await asyncio.start_unix_server(self._serve, folder / SOCKET_NAME)

    def spoil(self, how: Spoiling) -> None:
        """Be bad in this way until it is mended; a cut and a reset are over at once."""
        if how in ("cut", "reset"):
            self._hang_up(reset=how == "reset")
        elif how == "delay":
            self._delay_seconds = self._chance.uniform(0.005, 0.1)
        elif how == "half":
            self._halving = 0.2
        else:
            self._passing.clear()

    def mend(self) -> None:
        """Be good again."""
        self._delay_seconds = self._halving = 0.0
        self._passing.set()

    async def close(self) -> None:
        """Hang up for good."""
        if self._server is not None:
            self._server.close()
        self._hang_up(reset=False)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _hang_up(self, *, reset: bool) -> None:
        for writer in self._writers:
            _end(writer, reset=reset)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a server's callback is a task"
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        try:
            far_reader, far_writer = await self._other_end()
        except OSError:
            # The target refuses connections: the caller gets what it would get without a wire.
            _end(writer, reset=True)
            self._writers.discard(writer)
            return
        self._writers.add(far_writer)
        back = asyncio.create_task(self._carry(far_reader, writer))
        try:
            await self._carry(reader, far_writer)
            await back
        finally:
            back.cancel()
            self._writers -= {writer, far_writer}
            writer.close()
            far_writer.close()

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await source.read(CHUNK_BYTES):
                await self._passing.wait()
                if self._delay_seconds:
                    await asyncio.sleep(self._delay_seconds)
                if self._halving and self._chance.random() < self._halving:
                    target.write(chunk[: len(chunk) // 2])
                    await target.drain()
                    break
                target.write(chunk)
                await target.drain()
        target.close()


def _end(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    """Close, with `reset` by RST."""
    made = writer.get_extra_info("socket")
    if reset and made is not None and made.family != socket.AF_UNIX:
        with contextlib.suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    writer.transport.abort()


def to_port(port: int) -> Callable[[], Awaitable[Ends]]:
    """The other end is a port on loopback."""
    return lambda: asyncio.open_connection("127.0.0.1", port)


def to_postgres(url: str) -> Callable[[], Awaitable[Ends]]:
    """The other end is the socket that a PostgreSQL URL names."""
    folder = Path(parse_qs(urlsplit(url).query)["host"][0])
    return lambda: asyncio.open_unix_connection(folder / SOCKET_NAME)


def through(url: str, folder: Path) -> str:
    """The URL of the same database by the wire that listens in `folder`."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}?host={folder}"
