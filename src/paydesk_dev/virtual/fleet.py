"""The virtual terminals of one process. They share one HTTP session and a folder with a journal for each.

Without a folder the journals are kept in memory: thousands of terminals would wait for their disk.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from paydesk.core.errors import SERVICE_UNAVAILABLE, Refusal
from paydesk.core.faults import SEED_MAX
from paydesk.core.secrets import Secret
from paydesk.engine.terminals.schemas import Kind
from paydesk_dev import http_client
from paydesk_dev.virtual import journal as journals
from paydesk_dev.virtual.journal import Journal
from paydesk_dev.virtual.scripts import playlists
from paydesk_dev.virtual.terminal import tasks
from paydesk_dev.virtual.terminal.client import DeviceClient, Pace
from paydesk_dev.virtual.terminal.own_faults import OwnFaults
from paydesk_dev.virtual.terminal.panel import Panel
from paydesk_dev.virtual.terminal.terminal import Terminal

if TYPE_CHECKING:
    import aiohttp

    from paydesk_dev.faults.active import Faults


def stopping() -> Refusal:
    """Return the refusal of a request while the process stops."""
    return SERVICE_UNAVAILABLE.with_reason("the node stops", message="The node is stopping. Repeat the request.")


class Fleet:
    """The virtual terminals with a journal in the folder, as clients of the service at `base_url`.

    `counts` has the results of all terminals by outcome, and the faults of flaky networks by kind; `seed` makes these
    faults repeatable. The panels of a `hidden` fleet show no orders. `on_screen` is called with the id of a terminal
    after each change of its screen.
    """

    def __init__(
        self,
        base_url: str,
        folder: Path | None,
        pace: Pace | None = None,
        seed: int | None = None,
        *,
        hidden: bool = False,
        on_screen: Callable[[str], None] | None = None,
    ) -> None:
        self._hidden, self._on_screen = hidden, on_screen
        self.base_url, self._folder, self._pace, self._seed = base_url, folder, pace or Pace(), seed
        self.counts = Counter[str]()
        self.faults: Faults | None = None
        """Those of the service, if it runs in this process."""
        self._terminals: dict[str, Terminal] = {}
        self._numbers: dict[str, int] = {}
        self._retired: dict[str, asyncio.Task[None] | None] = {}
        """Terminals that are switched off for good, each with the task that removes it."""
        self._http: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Start every terminal with a journal in the folder, but retired ones; the service need not be reachable."""
        # In a thread: importing this large library would block the event loop.
        await asyncio.to_thread(import_module, "aiohttp")
        self._http = http_client.session()
        if self._folder is None:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in sorted(self._folder.glob("*.json")):
            journal = await asyncio.to_thread(journals.read, path)
            if journal is not None and journal.is_retired:
                self._retired[journal.terminal_id] = None
            elif journal is not None:
                self._run(journal)

    async def add(
        self,
        terminal_id: str,
        device_token: str,
        script: str,
        *,
        kind: Kind = "terminal",
        seed: int | None = None,
        is_quick: bool = False,
    ) -> None:
        """Start a terminal, or restart it with this token and script; the entries of its journal are kept.

        `seed` makes the faults of its network the same in each run; one that `is_quick` makes no pauses for eyes.
        Returns after its first hello, at most after 5 s; then it continues to connect in the background. Raises
        `ValueError` for an invalid script or id, and `SERVICE_UNAVAILABLE` while the process stops.
        """
        token, normalized = Secret(device_token), str(playlists.parse(script))
        path = journals.path_of(self._folder, terminal_id) if self._folder is not None else None
        known, previous = self._terminals.get(terminal_id), None
        if known is not None:
            await known.retire()
            previous = known.journal
        elif path is not None:
            previous = await asyncio.to_thread(journals.read, path)
        journal = Journal(path, terminal_id, token, normalized, kind=kind)
        journal.seed, journal.is_quick = seed, is_quick or (previous is not None and previous.is_quick)
        if previous is not None:
            journal.entries, journal.orders, journal.latest = previous.entries, previous.orders, previous.latest
        await journal.save()
        await self._run(journal, known.panel if known is not None else None).settle()

    @asynccontextmanager
    async def reset(self) -> AsyncIterator[None]:
        """Stop all terminals within the block, and let them begin anew afterwards: idle, with empty journals."""
        async with AsyncExitStack() as stack:
            for terminal in list(self._terminals.values()):
                await stack.enter_async_context(terminal.reset())
            yield

    def find(self, terminal_id: str) -> Terminal:
        """Return the terminal. Raises `KeyError` for one that is not of this process."""
        return self._terminals[terminal_id]

    async def remove(self, terminal_id: str) -> None:
        """Stop the terminal, if it is one of this process, and delete its journal."""
        terminal = self._terminals.pop(terminal_id, None)
        if terminal is not None:
            await terminal.close()
        if self._folder is not None:
            await asyncio.to_thread(journals.path_of(self._folder, terminal_id).unlink, missing_ok=True)

    async def retire(self, terminal_id: str, until_deleted: Callable[[], Awaitable[None]]) -> None:
        """Switch the terminal off for good, and remove it once `until_deleted` returns. A restart leaves it off."""
        terminal = self._terminals.pop(terminal_id, None)
        if terminal is not None:
            await terminal.close()
            terminal.journal.is_retired = True
            await terminal.journal.save()
        self.remove_later(terminal_id, until_deleted)

    def remove_later(self, terminal_id: str, until_deleted: Callable[[], Awaitable[None]]) -> None:
        """Remove the retired terminal once `until_deleted` returns."""

        async def remove() -> None:
            await until_deleted()
            await self.remove(terminal_id)
            self._retired.pop(terminal_id, None)

        self._retired[terminal_id] = tasks.start(remove(), "removal", terminal_id)

    async def stop(self) -> None:
        """Stop all terminals within a second; their journals stay complete."""
        # First, so that no terminal is switched on meanwhile.
        http, self._http = self._http, None
        await tasks.cancel(*self._retired.values())
        await asyncio.gather(*(terminal.close() for terminal in self._terminals.values()))
        self._terminals.clear()
        if http is not None:
            await http.close()

    def terminals(self) -> tuple[str, ...]:
        """Return the ids of the terminals, switched on or off."""
        return tuple(self._terminals)

    def retired(self) -> tuple[str, ...]:
        """Return the ids of the terminals that are switched off for good, until they can be deleted."""
        return tuple(self._retired)

    @property
    def connected(self) -> int:
        """How many terminals have a session."""
        return sum(terminal.panel.is_online for terminal in self._terminals.values())

    @property
    def paying(self) -> int:
        """How many terminals have an order in progress."""
        slots = [terminal.slot for terminal in self._terminals.values()]
        return sum(slot is not None and slot.is_paying for slot in slots)

    def _run(self, journal: Journal, panel: Panel | None = None) -> Terminal:
        """Switch the terminal on, with the panel that it had before, if there is one."""
        panel = panel or Panel(journal.kind, hidden=self._hidden, is_quick=journal.is_quick)
        if self._on_screen is not None:
            panel.on_show = partial(self._on_screen, journal.terminal_id)
        # The n-th terminal has the same faults in each run.
        number = self._numbers.setdefault(journal.terminal_id, len(self._numbers))
        seed = journal.seed
        if seed is None and self._seed is not None:
            seed = (self._seed + number) % SEED_MAX
        faults = OwnFaults(journal.terminal_id, self.counts, self.faults, seed)
        connect = partial(self._connect, journal)
        pace = self._pace.quick() if journal.is_quick else self._pace
        terminal = Terminal(journal, connect, pace, panel, faults=faults, counts=self.counts)
        self._terminals[journal.terminal_id] = terminal
        terminal.start()
        return terminal

    def _connect(self, journal: Journal) -> DeviceClient:
        if self._http is None:
            raise stopping()
        return DeviceClient(self._http, self.base_url, journal.device_token)
