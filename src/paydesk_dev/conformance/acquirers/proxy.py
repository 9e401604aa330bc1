"""The proxy between the adapter and its acquirer, on the byte stream: one request and at most one fault a connection.

Requests and answers are HTTP. Their bytes are passed on unchanged but for the headers `Host` and `Connection`, so that
a signature of the body and the path stays valid. Every answer says `Connection: close`: the proxy closes it afterwards.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
import sys
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import repeat
from typing import Literal, NamedTuple

Fault = Literal["reset", "cut", "late", "twice", "garbage", "half", "502", "404", "hold"]
"""What happens to one request:

- `reset`: it does not arrive, and its connection is reset;
- `cut`: it arrives, and the connection is closed instead of an answer;
- `late`: it arrives, and its answer comes after the adapter's limit;
- `twice`: it arrives twice;
- `garbage`, `half`, `502`, `404`: it arrives, and its answer is replaced by noise, cut in the middle, or replaced by a
  proxy's page;
- `hold`: its connection is reset, and it arrives when the case delivers it.
"""
HEAD_BYTES_MAX, UPSTREAM_SECONDS_MAX = 64 * 1024, 60.0
PAGE = b"HTTP/1.1 %d Proxy\r\nContent-Type: text/html\r\nContent-Length: 28\r\n\r\n<html>Sent by a proxy</html>"
REPLACED: Mapping[str | None, Callable[[bytes], bytes]] = {
    "cut": lambda _: b"",
    "garbage": lambda _: bytes(range(256)) * 4,
    "half": lambda answer: answer[: -len(answer.partition(b"\r\n\r\n")[2]) // 2],
    "502": lambda _: PAGE % 502,
    "404": lambda _: PAGE % 404,
}
"""What takes the place of an answer."""
NO_FAULTS: Iterator[Fault] = iter(())
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_KEY = re.compile(rb"\r\nidempotency-key: *([^\r]*)", re.IGNORECASE)
_OWN_HEADERS = re.compile(rb"\r\n(?:host|connection):[^\r]*", re.IGNORECASE)


class Request(NamedTuple):
    """A request of the adapter, and the engine's call that it belongs to, "" without one."""

    operation: str
    head: bytes
    body: bytes

    @property
    def key(self) -> str:
        """Return the idempotency key, or an empty string."""
        key = _KEY.search(self.head)
        return key[1].decode("ascii", "replace").strip() if key else ""


class Proxy:
    """A proxy in front of one address. `tls`: for its own connections to an https address.

    `running` has the operations of the engine's calls that are under way: whatever the protocol, a request is theirs.
    """

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        self._address, self._tls = urllib.parse.urlsplit(url), tls
        self.running: Sequence[str] = ()
        self.requests: list[Request] = []
        """All of them, in the order in which they came."""
        self._operation, self._faults = "", NO_FAULTS
        self._held: list[Request] = []
        self._late = asyncio.Event()
        self._port = 0

    @property
    def url(self) -> str:
        """Return the address for the adapter."""
        return f"http://127.0.0.1:{self._port}{self._address.path}"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listen until the end of the block, except while connections are refused."""
        await self._listen()
        try:
            yield
        finally:
            self._server.close()

    @asynccontextmanager
    async def refusing(self) -> AsyncIterator[None]:
        """Refuse connections until the end of the block."""
        self._server.close()
        try:
            yield
        finally:
            await self._listen()

    @contextmanager
    def on(self, fault: Fault, operation: str, times: int = sys.maxsize) -> Iterator[None]:
        """Put a fault on requests of the operation; answers that are still late at the end are dropped."""
        self._operation, self._faults = operation, repeat(fault, times)
        try:
            yield
        finally:
            self._operation, self._faults = "", NO_FAULTS
            self._late.set()
            self._late = asyncio.Event()

    def of(self, operation: str, payment_id: str) -> list[Request]:
        """Return the requests of an operation whose body names the payment."""
        return [one for one in self.requests if one.operation == operation and payment_id.encode() in one.body]

    async def deliver(self) -> None:
        """Let the first request that is held arrive, and drop the others."""
        held, self._held = self._held[:1], []
        for request in held:
            await self._forward(request)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", self._port, limit=HEAD_BYTES_MAX)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            request = Request(self.running[0] if self.running else "", head, body)
            self.requests.append(request)
            fault = next(self._faults, None) if request.operation == self._operation else None
            if fault in ("reset", "hold"):
                self._held += [request] if fault == "hold" else []
                connection: socket.socket = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return
            writer.write(_closing(await self._answer(request, fault)))
            await writer.drain()
        writer.close()

    async def _answer(self, request: Request, fault: Fault | None) -> bytes:
        late = self._late
        if fault == "twice":
            await self._forward(request)
        answer = await self._forward(request)
        if fault == "late":
            await late.wait()
        return REPLACED[fault](answer) if fault in REPLACED else answer

    async def _forward(self, request: Request) -> bytes:
        """Send the request on a connection of its own and return the answer, without a length all bytes to the end."""
        port = self._address.port or (443 if self._tls else 80)
        async with asyncio.timeout(UPSTREAM_SECONDS_MAX):
            reader, writer = await asyncio.open_connection(self._address.hostname or "", port, ssl=self._tls)
            try:
                writer.write(_closing(request.head + request.body, b"Host: " + self._address.netloc.encode()))
                await writer.drain()
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                return head + (await reader.readexactly(int(length[1])) if length else await reader.read())
            finally:
                writer.close()


def _closing(message: bytes, *headers: bytes) -> bytes:
    """Return the message with these headers, and with `Connection: close` whatever it says; noise as it is."""
    head, end, body = message.partition(b"\r\n\r\n")
    return b"\r\n".join((_OWN_HEADERS.sub(b"", head), *headers, b"Connection: close")) + end + body if end else message
