"""The receivers of a run of webhooks: a healthy one, and those that fail in each way."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import cast

from free_port import free_port

HEALTHY, DEAD, SLOW, HALF, RESETS = "healthy", "dead", "slow", "half", "resets"
BAD = (DEAD, SLOW, HALF, RESETS)
"""`dead` refuses connections, `slow` answers after 10 s, `half` answers 500 to one of two, `resets` never answers."""
SLOW_SECONDS = 10.0


class Arrivals:
    """What the receivers got: the order in which versions first arrived, and the time since their commit."""

    def __init__(self, chance: random.Random, slow_seconds: float) -> None:
        self.chance, self.slow_seconds = chance, slow_seconds
        self.versions: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.requests: defaultdict[str, int] = defaultdict(int)

    def add(self, receiver: str, body: bytes) -> None:
        """Note one request."""
        self.requests[receiver] += 1
        event = json.loads(body)
        versions = self.versions[receiver, event["data"]["id"]]
        if event["data"]["version"] not in versions:
            versions.append(event["data"]["version"])
            self.seconds[receiver].append(time.time() - datetime.fromisoformat(event["date_created"]).timestamp())

    def out_of_order(self) -> list[str]:
        """Return the orders whose versions did not first arrive in order."""
        return [
            f"{receiver}: versions of {order} first arrived as {versions}"
            for (receiver, order), versions in self.versions.items()
            if versions != sorted(versions)
        ]


class _Connection(asyncio.Protocol):
    """One connection, which stays open. The path of a request names the receiver."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals, self._buffer = arrivals, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            start = head.index(b"content-length:") + len(b"content-length:")
            whole = end + 4 + int(head[start:].split(b"\r\n", 1)[0])
            if len(self._buffer) < whole:
                return
            body, self._buffer = self._buffer[end + 4 : whole], self._buffer[whole:]
            receiver = head.split(b" ", 2)[1].split(b"?")[0].strip(b"/").decode()
            self._arrivals.add(receiver, body)
            self._answer(receiver)

    def _answer(self, receiver: str) -> None:
        if receiver == RESETS:
            self._transport.abort()
        elif receiver == SLOW:
            asyncio.get_running_loop().call_later(self._arrivals.slow_seconds, self._write, 200)
        else:
            self._write(500 if receiver == HALF and self._arrivals.chance.random() < 0.5 else 200)

    def _write(self, status: int) -> None:
        self._transport.write(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\nok" % status)


@asynccontextmanager
async def receiving(arrivals: Arrivals, names: tuple[str, ...]) -> AsyncIterator[dict[str, str]]:
    """Yield the URLs of these receivers, which listen."""
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(arrivals), "127.0.0.1", 0, backlog=1024)
    listening: socket.socket = server.sockets[0]
    port, refused = listening.getsockname()[1], free_port()
    try:
        yield {name: f"http://127.0.0.1:{refused if name == DEAD else port}/{name}" for name in names}
    finally:
        server.close()
