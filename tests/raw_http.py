"""A raw connection to a running service: the test writes every byte."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service import Reply, Service


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, *, to_head: bool = False) -> Reply:
        """Read the next answer. Raises `IncompleteReadError` if the connection ends instead."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status_line, *lines = head.rstrip("\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = 0 if to_head else int(headers.get("content-length", 0))
        raw = await self._reader.readexactly(length)
        is_json = headers.get("content-type") == "application/json" and raw
        return Reply(int(status_line.split(" ")[1]), headers, raw, json.loads(raw) if is_json else None)

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()

    def cut(self) -> None:
        """Reset the connection at once."""
        self._writer.transport.abort()

    async def is_closed(self) -> bool:
        """Return whether the service closes the connection without a further byte."""
        try:
            return await self._reader.read(1) == b""
        except ConnectionResetError:
            return True


@asynccontextmanager
async def wire(service: Service) -> AsyncIterator[Wire]:
    """Open a connection to the service and close it at the end of the block."""
    address = urllib.parse.urlsplit(service.base_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


def head(method: str, path: str, *fields: str, host: str = "localhost") -> bytes:
    """Return a request's head; with an empty `host` there is no `Host`."""
    lines = [f"{method} {path} HTTP/1.1", *([f"Host: {host}"] if host else []), *fields]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def exchange(service: Service, request: bytes) -> Reply:
    """Send one request on a new connection."""
    async with wire(service) as connection:
        await connection.send(request)
        return await connection.answer()
