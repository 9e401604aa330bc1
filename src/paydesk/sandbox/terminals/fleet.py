"""The virtual terminals of one process. They share one HTTP session and a folder with a journal for each."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from paydesk.core.secrets import Secret
from paydesk.sandbox.terminals import journal as journals
from paydesk.sandbox.terminals import scripts
from paydesk.sandbox.terminals.client import DeviceClient, Pace
from paydesk.sandbox.terminals.journal import Journal
from paydesk.sandbox.terminals.terminal import Terminal

if TYPE_CHECKING:
    import aiohttp

HELLO_SECONDS_MAX = 5.0

_log = structlog.get_logger("virtual.fleet")


class Fleet:
    """The virtual terminals with a journal in the folder, as clients of the service at `base_url`."""

    def __init__(self, base_url: str, folder: Path, pace: Pace | None = None) -> None:
        self._base_url, self._folder, self._pace = base_url, folder, pace or Pace()
        self._http: aiohttp.ClientSession | None = None
        self._terminals: dict[str, Terminal] = {}

    async def start(self) -> None:
        """Start every terminal that has a journal in the folder, whether or not the service is reachable."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # In a thread: importing this large library would block the event loop.
        await asyncio.to_thread(import_module, "aiohttp")
        import aiohttp

        # No limit on connections: every terminal keeps one open for its poll.
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        )
        for path in sorted(self._folder.glob("*.json")):
            journal = await asyncio.to_thread(journals.read, path)
            if journal is not None:
                self._run(journal)

    async def add(self, terminal_id: str, device_token: str, script: str) -> None:
        """Start a terminal, or restart it with this token and script; the entries of its journal are kept.

        Returns after its first hello, at most after 5 s; then it continues to connect in the background. Raises
        `ValueError` for an invalid script or id.
        """
        path = journals.path_of(self._folder, terminal_id)
        normalized = str(scripts.parse(script))
        await self._end(terminal_id)
        previous = await asyncio.to_thread(journals.read, path)
        entries = previous.entries.values() if previous is not None else ()
        journal = Journal(path, terminal_id, Secret(device_token), normalized, entries)
        await journal.save()
        terminal = self._run(journal)
        try:
            await asyncio.wait_for(terminal.settled.wait(), HELLO_SECONDS_MAX)
        except TimeoutError:
            _log.warning("virtual_terminal_unconnected", terminal_id=terminal_id)

    async def set_script(self, terminal_id: str, script: str) -> None:
        """Change the terminal's script from its next order on.

        Raises `ValueError` for an unknown script, `KeyError` for an unknown terminal.
        """
        await self._terminals[terminal_id].set_script(script)

    async def remove(self, terminal_id: str) -> None:
        """Stop the terminal, if it was started, and delete its journal."""
        if terminal_id in self._terminals:
            await self._end(terminal_id)
            await asyncio.to_thread(journals.path_of(self._folder, terminal_id).unlink, missing_ok=True)

    async def stop(self) -> None:
        """Stop all terminals within a second; their journals stay complete."""
        await asyncio.gather(*(terminal.stop() for terminal in self._terminals.values()))
        self._terminals.clear()
        if self._http is not None:
            await self._http.close()
            self._http = None

    def terminals(self) -> tuple[str, ...]:
        """Return the ids of the started terminals."""
        return tuple(self._terminals)

    def _run(self, journal: Journal) -> Terminal:
        assert self._http is not None, "a fleet is started before a terminal is added"
        terminal = Terminal(DeviceClient(self._http, self._base_url, journal.device_token), journal, self._pace)
        self._terminals[journal.terminal_id] = terminal
        terminal.start()
        return terminal

    async def _end(self, terminal_id: str) -> None:
        terminal = self._terminals.pop(terminal_id, None)
        if terminal is not None:
            await terminal.stop()
