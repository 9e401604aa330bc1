"""Many virtual terminals in one process, over one HTTP session, each with its journal in one folder."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from paydesk.core.secrets import Secret
from paydesk.sandbox.terminals import journal as journals
from paydesk.sandbox.terminals import scripts
from paydesk.sandbox.terminals.journal import Journal
from paydesk.sandbox.terminals.link import Link
from paydesk.sandbox.terminals.pace import Pace
from paydesk.sandbox.terminals.terminal import Terminal

if TYPE_CHECKING:
    import aiohttp

HELLO_SECONDS_MAX = 5.0

_log = structlog.get_logger("virtual.fleet")


class Fleet:
    """The virtual terminals that the folder knows, as clients of the service at `base_url`."""

    def __init__(self, base_url: str, folder: Path, pace: Pace | None = None) -> None:
        self._base_url, self._folder, self._pace = base_url, folder, pace or Pace()
        self._http: aiohttp.ClientSession | None = None
        self._terminals: dict[str, Terminal] = {}

    async def start(self) -> None:
        """Take up every terminal whose journal is in the folder; says nothing about whether the service is there."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The service answers while this large library is read.
        await asyncio.to_thread(import_module, "aiohttp")
        import aiohttp

        # A terminal holds a poll open all the time, so the usual bound on connections would stop the others.
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        )
        for path in sorted(self._folder.glob("*.json")):
            journal = await asyncio.to_thread(journals.read, path)
            if journal is not None:
                self._run(journal)

    async def add(self, terminal_id: str, device_token: str, script: str) -> None:
        """Start a terminal, or start it again with this token and script; what its journal holds stays.

        Returns once it has said hello, or after 5 seconds, when it goes on trying in the background. Raises
        `ValueError` for a wrong script or id.
        """
        path = journals.path_of(self._folder, terminal_id)
        played = str(scripts.parse(script))
        await self._end(terminal_id)
        known = await asyncio.to_thread(journals.read, path)
        journal = Journal(
            path, terminal_id, Secret(device_token), played, known.entries.values() if known is not None else ()
        )
        await journal.save()
        terminal = self._run(journal)
        try:
            await asyncio.wait_for(terminal.settled.wait(), HELLO_SECONDS_MAX)
        except TimeoutError:
            _log.warning("a virtual terminal has not reached the service yet", terminal_id=terminal_id)

    async def set_script(self, terminal_id: str, script: str) -> None:
        """Let the terminal play another script from its next order on.

        Raises `ValueError` for a script that there is not, `KeyError` for a terminal that is not here.
        """
        await self._terminals[terminal_id].set_script(script)

    async def stop(self) -> None:
        """End all of them at once, within a second; their journals are whole."""
        await asyncio.gather(*(terminal.stop() for terminal in self._terminals.values()))
        self._terminals.clear()
        if self._http is not None:
            await self._http.close()
            self._http = None

    def terminals(self) -> tuple[str, ...]:
        """The ids of the terminals that were started."""
        return tuple(self._terminals)

    def _run(self, journal: Journal) -> Terminal:
        assert self._http is not None, "a fleet is started before a terminal is added"
        terminal = Terminal(Link(self._http, self._base_url, journal.device_token), journal, self._pace)
        self._terminals[journal.terminal_id] = terminal
        terminal.start()
        return terminal

    async def _end(self, terminal_id: str) -> None:
        terminal = self._terminals.pop(terminal_id, None)
        if terminal is not None:
            await terminal.stop()
