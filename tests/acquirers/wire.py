"""A wire between the service and a host that fails on a share of the requests: one fault a request, on the bytes.

It works for any protocol in which a connection has one request and its answer after the other: `is_whole` says whether
a request or an answer has arrived completely.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Literal, get_args

from waiting import timer

Fault = Literal["reset", "lost", "unanswered", "cut", "delayed", "twice", "late", "garbage", "half", "bad_gateway"]
"""Of a request: the connection ends at once · it vanishes · its answer never comes · the connection ends before its
answer · it arrives later · twice · seconds after the connection has ended. Its answer: is garbage · is cut · is that of
another server."""
FAULTS: tuple[Fault, ...] = get_args(Fault)
CHUNK_BYTES, LATE_SECONDS, DELAYED_SECONDS = 65_536, (0.5, 2.0), (0.05, 0.6)
OUTAGE_SECONDS = 0.15
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class FaultyWire:
    """The wire to a port of this machine. `share` of the requests meet a fault."""

    def __init__(
        self, target: int, chance: random.Random, is_whole: Callable[[bytes], bool], *, share: float = 0.3
    ) -> None:
        self._target, self._chance, self._is_whole, self.share = target, chance, is_whole, share
        self.port = 0
        self.counts: Counter[str] = Counter()
        self.faults: tuple[Fault, ...] = FAULTS
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def laid(self) -> AsyncIterator[FaultyWire]:
        """Listen, until the end of the block."""
        await self._listen()
        try:
            yield self
        finally:
            self.hang_up()
            # A connection that was just accepted gets its task in the loop's next turn.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for task in self._tasks | self._late:
                task.cancel()
            await asyncio.gather(*self._tasks, *self._late, return_exceptions=True)

    async def break_off(self) -> None:
        """Refuse connections for a moment."""
        self.counts["refused"] += 1
        self.hang_up()
        await timer(OUTAGE_SECONDS).wait()
        await self._listen()

    def hang_up(self) -> None:
        """Refuse connections."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def listen(self) -> None:
        """Accept connections again."""
        if self._listener is None:
            await self._listen()

    async def mend(self) -> None:
        """End all faults, and wait until requests that are late have arrived."""
        self.share = 0.0
        await self.listen()
        await asyncio.gather(*self._late, return_exceptions=True)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
            try:
                while self._is_whole(request := await self._read(client)):
                    if not await self._pass(request, client, to_client, server, to_server):
                        return
            finally:
                to_server.close()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            to_client.close()

    async def _pass(
        self,
        request: bytes,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> bool:
        """Pass one request and its answer on; return whether the connection lasts."""
        fault = self._chance.choice(self.faults) if self._chance.random() < self.share else None
        self.counts[fault or "passed"] += 1
        if fault == "reset":
            to_client.transport.abort()
            return False
        if fault == "lost":
            await client.read(CHUNK_BYTES)
            return False
        if fault == "late":
            task = asyncio.create_task(self._arrive_late(request))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            return False
        if fault == "delayed":
            await timer(self._chance.uniform(*DELAYED_SECONDS)).wait()
        if fault == "twice":
            await self._send(request)
        to_server.write(request)
        answer = await self._read(server)
        if fault == "cut":
            return False
        if fault == "unanswered":
            await client.read(CHUNK_BYTES)
            return False
        changed = {"garbage": self._chance.randbytes(20) + b"\n", "half": answer[: len(answer) // 2]}
        to_client.write({**changed, "bad_gateway": BAD_GATEWAY}.get(fault or "", answer))
        await to_client.drain()
        return fault in (None, "delayed", "twice") and bool(answer)

    async def _arrive_late(self, request: bytes) -> None:
        await timer(self._chance.uniform(*LATE_SECONDS)).wait()
        await self._send(request)

    async def _send(self, request: bytes) -> None:
        """Send the request on a connection of its own; no one reads the answer."""
        with suppress(ConnectionError):
            server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
            try:
                to_server.write(request)
                await self._read(server)
            finally:
                to_server.close()

    async def _read(self, stream: asyncio.StreamReader) -> bytes:
        """Return a whole request or answer, or what came of it before the connection ended."""
        message = b""
        while not self._is_whole(message) and (chunk := await stream.read(CHUNK_BYTES)):
            message += chunk
        return message


def is_whole_line(message: bytes) -> bool:
    """Return whether it is a line."""
    return message.endswith(b"\n")


def is_whole_http(message: bytes) -> bool:
    """Return whether it is a request or an answer of HTTP with its whole body, whose length is declared."""
    head, separator, body = message.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *([0-9]+)", head, re.IGNORECASE)
    return bool(separator) and len(body) >= (int(length[1]) if length else 0)
