"""A virtual terminal as a person holds it: switched on, off or restarting, with a panel that stays the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from paydesk_dev.virtual.journal import Journal
from paydesk_dev.virtual.scripts import playlists
from paydesk_dev.virtual.terminal import tasks
from paydesk_dev.virtual.terminal.actions import Action, ActionNotPossible
from paydesk_dev.virtual.terminal.client import Pace
from paydesk_dev.virtual.terminal.panel import Panel
from paydesk_dev.virtual.terminal.screens import Screen
from paydesk_dev.virtual.terminal.terminal import Terminal

WAITING_MAX = 16
"""How many actions may wait for the terminal at a time."""
HELLO_SECONDS_MAX, NOTICED_SECONDS_MAX = 5.0, 1.0

_log = structlog.get_logger("virtual.handheld")


class Handheld:
    """One virtual terminal across its restarts. `start` makes a `Terminal` from its journal and panel."""

    def __init__(self, journal: Journal, panel: Panel, pace: Pace, start: Callable[[], Terminal]) -> None:
        self.journal, self.panel = journal, panel
        self._pace, self._start = pace, start
        self.terminal: Terminal | None = None
        """The running start, None while it is switched off or restarts."""
        self._restarting: asyncio.Task[None] | None = None
        self._power = asyncio.Lock()
        self._waiting = 0
        self._is_retired = False

    def start(self) -> None:
        """Switch it on; it connects in the background."""
        assert self.terminal is None, "it is switched off"
        self.panel.start(len(self.journal.entries))
        self._connect()

    def _connect(self) -> None:
        self.terminal = self._start()
        self.terminal.start()

    async def settle(self) -> None:
        """Wait for its first hello, at most for 5 s."""
        if self.terminal is None:
            return
        try:
            await asyncio.wait_for(self.terminal.settled.wait(), HELLO_SECONDS_MAX)
        except TimeoutError:
            _log.warning("virtual_terminal_unconnected", terminal_id=self.journal.terminal_id)

    async def stop(self) -> None:
        """Stop it within a second; its journal stays complete."""
        restarting, self._restarting = self._restarting, None
        await tasks.cancel(restarting)
        terminal, self.terminal = self.terminal, None
        if terminal is not None:
            await terminal.stop()

    @asynccontextmanager
    async def reset(self) -> AsyncIterator[None]:
        """Stop it within the block, and let it begin anew afterwards: idle, with an empty journal.

        If the block raises, it goes on from its journal. One that is switched off stays off, and so does one that is
        removed within the block.
        """
        async with self._power:
            is_on = self.terminal is not None or self._restarting is not None
            await self.stop()
            try:
                yield
                if not self._is_retired:
                    await self.journal.clear()
                    if is_on:
                        self.panel.reset()
            finally:
                if is_on and not self._is_retired:
                    self._connect()

    async def retire(self) -> None:
        """Stop it for good; another one may go on with its journal and panel."""
        self._is_retired = True
        await self.stop()

    async def close(self) -> None:
        """Stop it for good."""
        await self.retire()
        self.panel.switch_off()
        self.panel.link.close()

    async def act(self, action: Action) -> Screen:
        """Take an action of a person, and return the screen after it.

        Raises `ActionNotPossible`, and `ValueError` for an unknown card or an invalid script.
        """
        match action.name:
            case "power_off" | "power_on" | "reboot":
                async with self._power:
                    await self._switch(action)
            case "go_offline":
                self.panel.link.cut(action.seconds)
                await self._notice(is_online=False)
            case "go_online":
                self.panel.link.restore()
                await self._notice(is_online=True)
            case "lose_acknowledgement":
                self.panel.link.lose_acknowledgement()
            case "set_script":
                await self.set_script(action.script)
            case _ if self.terminal is None:
                raise ActionNotPossible.on(self.panel.screen, action)
            case _ if self._waiting == WAITING_MAX:
                raise ActionNotPossible(self.panel.screen, "too many actions are waiting; try again")
            case _:
                self._waiting += 1
                try:
                    return await self.terminal.slot.act(action)
                finally:
                    self._waiting -= 1
        return self.panel.screen

    async def set_script(self, script: str) -> None:
        """Change the script from the next order on. Raises `ValueError` for an unknown one."""
        await self.journal.set_script(str(playlists.parse(script)))
        if self.terminal is not None:
            self.terminal.set_network()

    async def _switch(self, action: Action) -> None:
        if (action.name == "power_on") != (self.panel.screen.name == "off"):
            raise ActionNotPossible.on(self.panel.screen, action)
        if action.name == "power_on":
            self.start()
            if self.panel.link.is_up:
                await self.settle()
            return
        if action.name == "reboot" and self.terminal is None:
            raise ActionNotPossible.on(self.panel.screen, action)
        await self.stop()
        if action.name == "power_off":
            self.panel.switch_off()
        else:
            self.panel.start(len(self.journal.entries), self._pace.reboot_seconds)
            self._restarting = asyncio.create_task(self._restart(), name=f"restart of {self.journal.terminal_id}")

    async def _restart(self) -> None:
        await self._pace.sleep(self._pace.reboot_seconds)
        self._restarting = None
        self.start()

    async def _notice(self, *, is_online: bool) -> None:
        """Wait until the running terminal has noticed that its network is cut or restored, at most for a second."""
        await self.panel.until(lambda: self.terminal is None or self.panel.is_online == is_online, NOTICED_SECONDS_MAX)
