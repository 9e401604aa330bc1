"""A proxy of `paydesk dev --proxy` in front of a TLS server of the test, and raw connections to it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from event_loops import EACH_LOOP, LOOPS
from paydesk.platform.http.server import server
from paydesk_dev.proxy.proxy import Proxy
from paydesk_dev.tls.certificates import find_or_create
from service import Reply

API, AUTH = "api.mercadopago.com", "auth.mercadopago.com"
OWN_URL = "http://127.0.0.1:8377"
Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Wire:
    """One connection to the proxy, in clear text until `encrypt`."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self, *, to_head: bool = False) -> Reply:
        """Read a response of the proxy."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("ascii")
        status_line, *lines = head.rstrip("\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        headers["status line"] = status_line
        length = 0 if to_head else int(headers.get("content-length", 0))
        raw = await self.reader.readexactly(length)
        return Reply(int(status_line.split(" ")[1]), headers, raw, json.loads(raw) if raw else None)

    async def read(self, count: int) -> bytes:
        """Read exactly so many bytes."""
        return await self.reader.readexactly(count)

    async def is_closed(self) -> bool:
        """Return whether the connection ends without a further byte."""
        try:
            return await self.reader.read(1) == b""
        except (ConnectionResetError, ssl.SSLError):
            return True

    async def connect(self, host: str = API, port: int = 443) -> Reply:
        """Request a tunnel."""
        await self.send(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        return await self.reply()

    async def encrypt(self, trusted: ssl.SSLContext, name: str = API) -> None:
        """Begin TLS inside the tunnel. Raises `ssl.SSLError` if the certificate is not one of `name`."""
        await self.writer.start_tls(trusted, server_hostname=name)


@dataclass
class Scene:
    """A running proxy and its TLS server, which echoes; `received` has what it got on each of its connections."""

    port: int
    trusted: ssl.SSLContext
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    running: asyncio.Future[None] = field(default_factory=asyncio.Future)
    upstream: asyncio.Server = field(init=False)
    received: list[bytearray] = field(default_factory=list)
    handle: Handle | None = None
    """What the TLS server does instead of its echo."""

    @contextlib.asynccontextmanager
    async def wire(self) -> AsyncIterator[Wire]:
        """Open a connection to the proxy; it is cut at the end of the block."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Wire(reader, writer)
        finally:
            writer.transport.abort()

    async def refusal(self, request: bytes) -> Reply:
        """Return the refusal of a request, after which the proxy closes the connection."""
        async with self.wire() as wire:
            await wire.send(request)
            reply = await wire.reply()
            assert reply.headers["connection"] == "close"
            assert await wire.is_closed()
            return reply

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the TLS server."""
        if self.handle is not None:
            await self.handle(reader, writer)
            return
        received = bytearray()
        self.received.append(received)
        with contextlib.suppress(OSError):
            while chunk := await reader.read(1 << 16):
                received += chunk
                writer.write(chunk)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def proxying(folder: Path) -> AsyncIterator[Scene]:
    """Run a proxy until the block ends."""
    authority = find_or_create(folder / "authority")
    trusted = ssl.create_default_context(cafile=str(authority.file))
    listening = server.bind("127.0.0.1", 0)
    scene = Scene(listening.getsockname()[1], trusted)
    upstream = await asyncio.start_server(scene.serve, "127.0.0.1", 0, ssl=authority.server_context(folder))
    scene.upstream = upstream
    proxy = Proxy(upstream.sockets[0].getsockname()[:2], OWN_URL)
    scene.running = asyncio.create_task(proxy.serve(listening, scene.stop))
    try:
        yield scene
    finally:
        scene.stop.set()
        upstream.close()
        await scene.running


def on_each_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run the test with a proxy, its parameter `scene`, on uvloop and on asyncio; no callback of the loop fails."""

    @pytest.mark.parametrize("loop", EACH_LOOP)
    def run(loop: str, tmp_path: Path, **given: Any) -> None:
        faults: list[object] = []

        async def body() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
            async with proxying(tmp_path) as scene:
                await test(scene, **given)

        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(body())
        assert not faults, faults

    own = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("loop", "tmp_path")]
    others = [one.replace(kind=one.KEYWORD_ONLY) for one in list(inspect.signature(test).parameters.values())[1:]]
    run.__signature__ = inspect.Signature([*own, *others])
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    made: Callable[..., None] = run
    return made
