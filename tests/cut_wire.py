"""A wire to PostgreSQL that a test can cut: it stands between a driver and the server and looks for a statement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

Cut = Literal["before", "after", "silence", "late"]
"""Before the statement reaches the server, after the server answered it, or no answer ever and the wire stays. `late`:
the client's end is cut, and the statement reaches the server when it is `let_through`."""


class CutWire:
    """`cut` says what happens to the next statement that contains `at`; after `times` cuts the wire is whole again."""

    def __init__(self, server_url: str, folder: Path) -> None:
        url = urlsplit(server_url)
        self._server = Path(parse_qs(url.query)["host"][0]) / ".s.PGSQL.5432"
        self._socket = folder / ".s.PGSQL.5432"
        self.url = f"postgresql://{url.netloc}{url.path}?host={folder}"
        self.at = b""
        self.cut: Cut = "before"
        self.times = 0
        self.connections = 0
        self.cancel_requests = 0
        self.let_through, self.has_arrived = asyncio.Event(), asyncio.Event()

    def plan(self, cut: Cut, at: bytes, times: int = 1) -> None:
        """Cut the next `times` statements that contain `at`."""
        self.cut, self.at, self.times = cut, at, times

    @asynccontextmanager
    async def laid(self) -> AsyncIterator[CutWire]:
        """Listen, until the end of the block."""
        self._tasks: set[asyncio.Task[None]] = set()
        listener = await asyncio.start_unix_server(self._serve, self._socket)
        try:
            yield self
        finally:
            listener.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        server, to_server = await asyncio.open_unix_connection(self._server)
        silent, answered = asyncio.Event(), asyncio.Event()
        answers = asyncio.create_task(_copy(server, to_client, silent, answered))
        try:
            while chunk := await client.read(65_536):
                if len(chunk) == 16 and chunk[4:8] == b"\x04\xd2\x16\x2e":
                    self.cancel_requests += 1
                if self.times and self.at in chunk:
                    self.times -= 1
                    if self.cut == "before":
                        return
                    silent.set()
                    if self.cut == "late":
                        to_client.close()
                        await self.let_through.wait()
                    to_server.write(chunk)
                    if self.cut == "late":
                        await answered.wait()
                        self.has_arrived.set()
                        return
                    if self.cut == "after":
                        await answered.wait()
                        return
                    continue
                to_server.write(chunk)
        except ConnectionError:
            pass
        finally:
            answers.cancel()
            to_client.close()
            to_server.close()


async def _copy(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, silent: asyncio.Event, answered: asyncio.Event
) -> None:
    """Pass the answers on; of those that come once it is `silent`, say that one has come, or that none will."""
    while chunk := await source.read(65_536):
        if silent.is_set():
            answered.set()
        else:
            target.write(chunk)
    answered.set()
    target.close()
