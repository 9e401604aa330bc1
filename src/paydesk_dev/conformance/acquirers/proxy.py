"""The proxy between the adapter and its acquirer, on the byte stream: one request and at most one fault a connection.

The requests are HTTP. Their bytes are passed on unchanged but for the headers `Host` and `Connection`, so that a
signature of the body and the path stays valid.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
import urllib.parse
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

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
PAGE = b"<html>Sent by a proxy</html>"
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_KEY = re.compile(rb"\r\nidempotency-key: *([^\r]*)", re.IGNORECASE)
_REPLACED = re.compile(rb"\r\n(?:host|connection):[^\r]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the adapter."""

    head: bytes = field(repr=False)
    body: bytes = field(repr=False)
    operation: str
    """The engine's call that it belongs to, "" without one."""
    fault: Fault | None

    @property
    def key(self) -> str:
        """Return the idempotency key, or an empty string."""
        key = _KEY.search(self.head)
        return key[1].decode("ascii", "replace").strip() if key else ""


@dataclass(slots=True)
class _Plan:
    fault: Fault
    operation: str
    times: int


class Proxy:
    """A proxy in front of one address. `tls`: for its own connections to an https address.

    `running` has the operations of the engine's calls that are under way: whatever the protocol, a request is theirs.
    """

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        self._address, self._tls = urllib.parse.urlsplit(url), tls
        self.running: Sequence[str] = ()
        self._plans: list[_Plan] = []
        self._held: list[Request] = []
        self._server: asyncio.Server | None = None
        self._port, self._late = 0, asyncio.Event()
        self.requests: list[Request] = []
        """All of them, in the order in which they came."""

    @property
    def url(self) -> str:
        """Return the address for the adapter."""
        return f"http://127.0.0.1:{self._port}{self._address.path}"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listen until the end of the block."""
        await self._listen()
        try:
            yield
        finally:
            self._close()

    @asynccontextmanager
    async def refusing(self) -> AsyncIterator[None]:
        """Refuse connections until the end of the block."""
        self._close()
        try:
            yield
        finally:
            await self._listen()

    @contextmanager
    def on(self, fault: Fault, operation: str, times: int = 1_000_000) -> Iterator[None]:
        """Put a fault on requests of the operation; answers that are still late at the end are dropped."""
        plan = _Plan(fault, operation, times)
        self._plans.append(plan)
        try:
            yield
        finally:
            self._plans.remove(plan)
            self._late.set()
            self._late = asyncio.Event()

    def of(self, operation: str, payment_id: str) -> list[Request]:
        """Return the requests of an operation whose body names the payment."""
        return [one for one in self.requests if one.operation == operation and payment_id.encode() in one.body]

    async def deliver(self) -> int:
        """Let the first request that is held arrive, and drop the others; return how many arrived."""
        held, self._held = self._held[:1], []
        for request in held:
            await self._forward(request)
        return len(held)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", self._port, limit=HEAD_BYTES_MAX)
        self._port = self._server.sockets[0].getsockname()[1]

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            operation = self.running[0] if self.running else ""
            request = Request(head, body, operation, self._fault_of(operation))
            self.requests.append(request)
            await self._act(request, writer)
        writer.close()

    def _fault_of(self, operation: str) -> Fault | None:
        for plan in self._plans:
            if plan.times > 0 and operation == plan.operation:
                plan.times -= 1
                return plan.fault
        return None

    async def _act(self, request: Request, writer: asyncio.StreamWriter) -> None:
        fault, late = request.fault, self._late
        if fault in ("reset", "hold"):
            if fault == "hold":
                self._held.append(request)
            connection: socket.socket = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return
        if fault == "twice":
            await self._forward(request)
        answer = await self._forward(request)
        match fault:
            case "cut":
                answer = b""
            case "late":
                await late.wait()
            case "half":
                answer = answer[: -len(answer.partition(b"\r\n\r\n")[2]) // 2]
            case "garbage":
                answer = bytes(range(256)) * 4
            case "502" | "404":
                head = f"HTTP/1.1 {fault} Proxy\r\nContent-Type: text/html\r\nContent-Length: {len(PAGE)}\r\n\r\n"
                answer = head.encode() + PAGE
        writer.write(answer)
        await writer.drain()

    async def _forward(self, request: Request) -> bytes:
        """Send the request on a connection of its own and return all bytes of the answer."""
        port = self._address.port or (443 if self._tls else 80)
        name = self._address.hostname or ""
        async with asyncio.timeout(UPSTREAM_SECONDS_MAX):
            reader, writer = await asyncio.open_connection(name, port, ssl=self._tls)
            try:
                host = b"\r\nHost: " + self._address.netloc.encode() + b"\r\nConnection: close\r\n\r\n"
                writer.write(_REPLACED.sub(b"", request.head).removesuffix(b"\r\n\r\n") + host + request.body)
                await writer.drain()
                return await reader.read()
            finally:
                writer.close()
