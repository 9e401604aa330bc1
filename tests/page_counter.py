"""The page of a virtual terminal on a running service, as a browser without scripts asks for it."""

from __future__ import annotations

import asyncio
import contextlib
import urllib.parse
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from manual_scene import QUICK, Counter
from paydesk.platform.storage.database import Database
from paydesk.platform.web.event_streams import EventStreams
from paydesk_dev.virtual import page_keys
from paydesk_dev.virtual.fleet import Fleet
from paydesk_dev.virtual.terminal.client import Pace
from service import KEYS, running
from waiting import HANGS_SECONDS

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
HTMX = {"HX-Request": "true"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the service to a browser."""

    status: int
    headers: Any
    raw: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.raw.decode()


@dataclass
class PageCounter(Counter):
    """A counter whose terminal has a page."""

    streams: EventStreams
    """The open streams of the service."""

    @property
    def key(self) -> str:
        """The key of the page."""
        return self.address.partition("key=")[2]

    @property
    def address(self) -> str:
        """The address of the page."""
        return page_keys.page_url(self.service.base_url, KEYS, self.terminal.id)

    @property
    def path(self) -> str:
        """The path of the page, without its key."""
        return f"/virtual/{self.terminal.id}"

    async def get(self, path: str = "", key: str | None = None, **headers: str) -> Answer:
        """Ask for the page or for something below it."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        query = "" if key == "" else f"?key={self.key if key is None else key}"
        return await self._send("GET", f"{self.path}{path}{query}", None, sent)

    async def post(self, path: str, headers: dict[str, str] | None = None, **fields: Any) -> Answer:
        """Send a form of the page."""
        body = urllib.parse.urlencode({"key": self.key, **fields}).encode()
        return await self._send("POST", f"{self.path}{path}", body, {**FORM, **(headers or {})})

    async def until_streams(self, count: int, seconds_max: float = HANGS_SECONDS) -> None:
        """Wait until so many streams are open."""
        async with asyncio.timeout(seconds_max):
            while len(self.streams) != count:  # noqa: ASYNC110 - the service has no event for it
                await asyncio.sleep(0.02)

    async def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        url = self.service.base_url + path
        async with self.service.session.request(
            method, url, data=body, headers=headers, allow_redirects=False
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    @contextlib.asynccontextmanager
    async def stream(self, **headers: str) -> AsyncIterator[Stream]:
        """Open the page's stream."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"{self.service.base_url}{self.path}/events?key={self.key}"
        async with self.service.session.get(url, headers=sent) as answer:
            yield Stream(answer)


@dataclass(frozen=True, slots=True)
class Stream:
    """An open stream of server-sent events."""

    answer: aiohttp.ClientResponse

    async def message(self, seconds_max: float = HANGS_SECONDS) -> tuple[str, str]:
        """Return the id and the data of the next message."""
        async with asyncio.timeout(seconds_max):
            while True:
                lines = (await self.answer.content.readuntil(b"\n\n")).decode().splitlines()
                fields = [line.partition(": ") for line in lines if not line.startswith(":")]
                if any(name == "data" for name, _, _ in fields):
                    identity = next(value for name, _, value in fields if name == "id")
                    return identity, "\n".join(value for name, _, value in fields if name == "data")

    async def until(self, text: str, seconds_max: float = HANGS_SECONDS) -> tuple[str, str]:
        """Return the first message with this text."""
        async with asyncio.timeout(seconds_max):
            while True:
                identity, data = await self.message(seconds_max)
                if text in data:
                    return identity, data


@contextlib.asynccontextmanager
async def page_counter(
    database: Database,
    folder: Path,
    script: str = "manual",
    *,
    pace: Pace = QUICK,
    terminal_id: str = "",
    **options: Any,
) -> AsyncIterator[PageCounter]:
    """Run a service with one virtual terminal, which has said hello, and its page."""
    fleet, streams = Fleet("", folder / "terminals", pace), EventStreams(database.signals)
    async with running(database, development=True, fleet=fleet, streams=streams, is_public=True, **options) as service:
        # The service starts after its virtual terminals.
        fleet.base_url = service.base_url
        terminal = await service.terminal(terminal_id=terminal_id)
        await fleet.start()
        try:
            await fleet.add(terminal.id, terminal.token, script)
            yield PageCounter(service, fleet, terminal, streams)
        finally:
            await fleet.stop()
