"""A virtual terminal as a person holds it: switched on, off or restarting, with a panel that stays the same.

While it is switched on it keeps a session with the service and processes one order after another. It uses only the
terminal protocol, so to the service it is like any physical terminal.
"""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import structlog

from paydesk.core import runtime
from paydesk.engine.device.schemas import Message
from paydesk_dev.virtual.journal import Journal
from paydesk_dev.virtual.scripts import playlists
from paydesk_dev.virtual.terminal import tasks
from paydesk_dev.virtual.terminal.actions import Action, ActionNotPossible
from paydesk_dev.virtual.terminal.client import DeviceClient, Pace, ServiceUnavailable, SessionEnded
from paydesk_dev.virtual.terminal.device import Device
from paydesk_dev.virtual.terminal.own_faults import OwnFaults
from paydesk_dev.virtual.terminal.panel import Panel
from paydesk_dev.virtual.terminal.screens import Screen
from paydesk_dev.virtual.terminal.slot import Slot

WAITING_MAX = 16
"""How many actions may wait for the terminal at a time."""
HELLO_SECONDS_MAX, NOTICED_SECONDS_MAX = 5.0, 1.0
EMPTY_POLL_SECONDS_MIN, EMPTY_POLL_PAUSE_SECONDS = 1.0, 0.2


class Terminal:
    """One virtual terminal across its restarts. `connect` makes the client of each start.

    `faults` are those of a flaky script and of a person; `counts` has the results by outcome.
    """

    def __init__(
        self,
        journal: Journal,
        connect: Callable[[], DeviceClient],
        pace: Pace | None = None,
        panel: Panel | None = None,
        *,
        faults: OwnFaults | None = None,
        counts: Counter[str] | None = None,
    ) -> None:
        self.journal, self.panel, self._connect = journal, panel or Panel(journal.kind), connect
        self._counts = Counter[str]() if counts is None else counts
        self._faults = faults or OwnFaults(journal.terminal_id, self._counts)
        pace = pace or Pace()
        self._pace = replace(pace, between_tries=partial(self.panel.link.wait, pace.sleep))
        self.slot: Slot | None = None
        """The slot for orders of the running start, None while it is switched off or restarts."""
        self.settled = asyncio.Event()
        """Set once the service has accepted or refused the first hello of this start."""
        self._running: asyncio.Task[None] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._power = asyncio.Lock()
        self._printed = ""
        self._waiting = 0
        self._is_retired = False
        self._log = structlog.get_logger("virtual.terminal").bind(terminal_id=journal.terminal_id)

    def start(self) -> None:
        """Switch it on; it connects in the background."""
        self.panel.start(len(self.journal.entries))
        self._start()

    def _start(self) -> None:
        assert self.slot is None, "it is switched off"
        client = self._connect()
        client.link, client.messages = self.panel.link, None if self.panel.hidden else self.panel
        slot = Slot(Device(client, self.journal, self._pace, asyncio.Lock(), self.panel), self._counts)
        self.slot, self.settled, self._printed = slot, asyncio.Event(), ""
        client.network = self._faults.flaky(playlists.parse(self.journal.script, is_stored=True).flaky)
        self._running = tasks.start(self._run(slot), "terminal", self.journal.terminal_id)

    async def settle(self) -> None:
        """Wait for its first hello, at most for 5 s."""
        if self.slot is not None:
            try:
                await asyncio.wait_for(self.settled.wait(), HELLO_SECONDS_MAX)
            except TimeoutError:
                self._log.warning("virtual_terminal_unconnected")

    async def stop(self) -> None:
        """Stop it within a second; its journal stays complete."""
        restarting, self._restarting = self._restarting, None
        await tasks.cancel(restarting)
        self.slot = None
        await tasks.cancel(self._running)

    @asynccontextmanager
    async def reset(self) -> AsyncIterator[None]:
        """Stop it within the block, and let it begin anew afterwards: idle, with an empty journal.

        If the block raises, it goes on from its journal. One that is switched off stays off, and so does one that is
        removed within the block.
        """
        async with self._power:
            is_on = self.slot is not None or self._restarting is not None
            await self.stop()
            try:
                yield
                if not self._is_retired:
                    await self.journal.clear()
                    self._faults.remove()
                    if is_on:
                        self.panel.reset()
            finally:
                if is_on and not self._is_retired:
                    self._start()

    async def retire(self) -> None:
        """Stop it for good; another one may go on with its journal and panel."""
        self._is_retired = True
        self._faults.remove()
        await self.stop()

    async def close(self) -> None:
        """Stop it for good."""
        await self.retire()
        self.panel.switch_off()
        self.panel.link.close()

    # What a person does

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
            case "take_paper" | "load_paper":
                self._change_paper(has_paper=action.name == "load_paper")
            case "lose_acknowledgement":
                if not self._faults.lose_acknowledgement():
                    raise ActionNotPossible(self.panel.screen, "the service is another process: add a fault there")
            case "set_script":
                await self.set_script(action.script)
            case _ if self.slot is None:
                raise ActionNotPossible.on(self.panel.screen, action)
            case _ if self._waiting == WAITING_MAX:
                raise ActionNotPossible(self.panel.screen, "too many actions are waiting; try again")
            case _:
                self._waiting += 1
                try:
                    return await self.slot.act(action)
                finally:
                    self._waiting -= 1
        return self.panel.screen

    async def set_script(self, script: str) -> None:
        """Change the script from the next order on. Raises `ValueError` for an unknown one."""
        await self.journal.set_script(str(playlists.parse(script)))
        network = self._faults.flaky(playlists.parse(script).flaky)
        if self.slot is not None:
            self.slot.device.client.network = network

    def _change_paper(self, *, has_paper: bool) -> None:
        if self.panel.has_paper == has_paper:
            reason = "there is paper in the terminal" if has_paper else "the terminal has no paper"
            raise ActionNotPossible(self.panel.screen, reason)
        self.panel.change_paper(has_paper=has_paper)

    async def _switch(self, action: Action) -> None:
        is_off, is_running = self.panel.screen.name == "off", self.slot is not None
        if (action.name == "power_on") != is_off or (action.name == "reboot" and not is_running):
            raise ActionNotPossible.on(self.panel.screen, action)
        if action.name == "power_on":
            self.start()
            if self.panel.link.is_up:
                await self.settle()
            return
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
        await self.panel.until(lambda: self.slot is None or self.panel.is_online == is_online, NOTICED_SECONDS_MAX)

    # Its session

    async def _run(self, slot: Slot) -> None:
        try:
            for entry in self.journal.entries.values():
                slot.report(entry)
            await self._keep_session(slot)
        except SessionEnded as error:
            self.settled.set()
            self.panel.disconnected(f"The session has ended: {error}", None)
            self._log.warning("virtual_terminal_stopped", reason=str(error))
            await slot.stop()
            # The service accepts results without a session.
            await slot.reporter.drained()
        finally:
            await slot.close()

    async def _keep_session(self, slot: Slot) -> None:
        failures = 0
        while True:
            try:
                await self._hello(slot)
                while True:
                    await self._poll(slot)
                    failures = 0
            except ServiceUnavailable as error:
                reason = "The service does not answer" if self.panel.link.is_up else "The network is down"
                self.panel.disconnected(reason, self._pace.pause(failures))
                self._log.info("service_unavailable", reason=str(error), pause_seconds=self._pace.pause(failures))
                await self._pace.back_off(failures)
                failures += 1

    async def _hello(self, slot: Slot) -> None:
        # While a payment waits for an answer, the journal is incomplete, so a verdict on it would be outdated.
        async with slot.device.lock:
            welcome = await slot.device.client.hello(self.journal.entries.values())
        self.panel.seller_name = welcome.seller_name
        self.panel.set_mode(welcome.operating_mode)
        for verdict in welcome.leases:
            await slot.obey(verdict)
        self.settled.set()

    async def _poll(self, slot: Slot) -> None:
        started = runtime.monotonic()
        message = await slot.device.client.next(self._pace.poll_seconds)
        if message is not None:
            await self._handle(slot, message)
        elif runtime.monotonic() - started < EMPTY_POLL_SECONDS_MIN:
            # A service that is shutting down answers empty at once and must not be polled in a tight loop.
            await self._pace.sleep(EMPTY_POLL_PAUSE_SECONDS)

    async def _handle(self, slot: Slot, message: Message) -> None:
        match message:
            case Message("order", str(lease_id), order=dict(order)):
                await slot.offer(lease_id, order, message.expires_date or "")
            case Message("cancel", str(lease_id)):
                done = await slot.drop(lease_id)
                await self._pace.retry(partial(slot.device.client.answer_cancel, lease_id, done=done))
            case Message("expired", str(lease_id)):
                await slot.drop(lease_id, is_expired=True)
            case Message("print", action_id=str(action_id), subtype=str(subtype), content=str(content)):
                outcome = await self._print(action_id, subtype, content)
                # If the service doesn't answer, it offers the action again.
                await slot.device.client.report_print(action_id, outcome)
            case Message("mode", operating_mode=str(operating_mode)):
                self.panel.set_mode(operating_mode)
                self._log.info("operating_mode_changed", operating_mode=operating_mode)

    async def _print(self, action_id: str, subtype: str, content: str) -> str:
        """Print the action, once in this start of the terminal; return `printed`, or `failed` without paper."""
        if action_id != self._printed:
            self.panel.show_printing(self._pace.printing_seconds)
            await self._pace.sleep(self._pace.printing_seconds)
            if not self.panel.has_paper:
                return "failed"
            if subtype == "image":
                self.panel.print(image=base64.b64decode(content))
            else:
                self.panel.print(text=content)
            self._printed = action_id
        return "printed"
