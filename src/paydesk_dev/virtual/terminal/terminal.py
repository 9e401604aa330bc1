"""A virtual terminal: it keeps a session with the service and processes one order after another.

It uses only the terminal protocol, so to the service it is like any physical terminal.
"""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from dataclasses import replace
from functools import partial

import structlog

from paydesk.core import runtime
from paydesk.engine.device.schemas import Message
from paydesk_dev.virtual.journal import Entry, Journal
from paydesk_dev.virtual.scripts import playlists
from paydesk_dev.virtual.scripts.playlists import Part
from paydesk_dev.virtual.terminal import tasks
from paydesk_dev.virtual.terminal.client import DeviceClient, Pace, ServiceUnavailable, SessionEnded, Verdict
from paydesk_dev.virtual.terminal.network import FlakyNetwork
from paydesk_dev.virtual.terminal.panel import Panel
from paydesk_dev.virtual.terminal.payment import Device
from paydesk_dev.virtual.terminal.slot import Slot

EMPTY_POLL_SECONDS_MIN, EMPTY_POLL_PAUSE_SECONDS = 1.0, 0.2


class Terminal:
    """One start of a terminal from its journal, until `stop` or the end of its session.

    `seed` is for what a flaky network does, `counts` for results by outcome and faults of the network by name.
    """

    def __init__(
        self,
        client: DeviceClient,
        journal: Journal,
        pace: Pace | None = None,
        *,
        seed: str | None = None,
        counts: Counter[str] | None = None,
        panel: Panel | None = None,
    ) -> None:
        self._seed, self._counts = seed, Counter[str]() if counts is None else counts
        self._client, self.journal, self.panel = client, journal, panel or Panel(journal.kind)
        client.link, client.messages = self.panel.link, None if self.panel.hidden else self.panel
        pace = pace or Pace()
        self._pace = replace(pace, between_tries=partial(client.link.wait, pace.sleep))
        self.lock = asyncio.Lock()
        self.slot = Slot(Device(client, journal, self._pace, self.lock, self.panel), self._counts)
        self._running: asyncio.Task[None] | None = None
        self._printed = ""
        self._log = structlog.get_logger("virtual.terminal").bind(terminal_id=journal.terminal_id)
        self.settled = asyncio.Event()
        """Set once the service has accepted or refused the first hello."""
        self.set_network()

    def start(self) -> None:
        """Start in the background."""
        assert self._running is None, "a terminal is started once; create another for the next start"
        self._running = tasks.start(self._run(), "terminal", self.journal.terminal_id)

    async def stop(self) -> None:
        """Stop at once; the next start continues from the journal."""
        await tasks.cancel(self._running)

    def set_network(self) -> None:
        """Make the network as flaky as the script in the journal says."""
        probability = playlists.parse(self.journal.script).flaky
        if self._client.network is not None:
            self._client.network.probability = probability
        elif probability:
            self._client.network = FlakyNetwork(probability, self._seed, self._counts)

    async def _run(self) -> None:
        try:
            for entry in self.journal.entries.values():
                self._report(entry)
            await self._sessions()
        except SessionEnded as error:
            self.settled.set()
            self.panel.disconnected(f"The session has ended: {error}", None)
            self._log.warning("virtual_terminal_stopped", reason=str(error))
            await self.slot.stop()
            # The service accepts results without a session.
            await self.slot.reporter.drained()
        finally:
            await self.slot.close()
            if self._client.network is not None:
                await self._client.network.close()

    async def _sessions(self) -> None:
        failures = 0
        while True:
            try:
                await self._hello()
                while True:
                    await self._poll()
                    failures = 0
            except ServiceUnavailable as error:
                reason = "The service does not answer" if self._client.link.is_up else "The network is down"
                self.panel.disconnected(reason, self._pace.pause(failures))
                self._log.info("service_unavailable", reason=str(error), pause_seconds=self._pace.pause(failures))
                await self._pace.back_off(failures)
                failures += 1

    async def _hello(self) -> None:
        # While a payment waits for an answer, the journal is incomplete, so a verdict on it would be outdated.
        async with self.lock:
            welcome = await self._client.hello(self.journal.entries.values())
        self.panel.seller_name = welcome.seller_name
        self.panel.set_mode(welcome.operating_mode)
        for verdict in welcome.leases:
            await self._obey(verdict)
        self.settled.set()

    async def _obey(self, verdict: Verdict) -> None:
        entry = self.journal.entries.get(verdict.lease_id)
        if entry is None:
            self._log.warning("lease_not_in_journal", lease_id=verdict.lease_id, verdict=verdict.verdict)
        elif entry.result is not None:
            self._report(entry)
        elif verdict.verdict == "resume":
            await self.slot.begin(entry, self._part_of(entry))
        elif verdict.verdict in ("forget", "abort"):
            await self.slot.drop(entry.lease_id, is_over=True)
        elif verdict.verdict == "hold":
            await self.slot.hold(entry)
        else:
            self._log.warning("verdict_unknown", lease_id=entry.lease_id, verdict=verdict.verdict)

    async def _poll(self) -> None:
        started = runtime.monotonic()
        message = await self._client.next(self._pace.poll_seconds)
        if message is not None:
            await self._handle(message)
        elif runtime.monotonic() - started < EMPTY_POLL_SECONDS_MIN:
            # A service that is shutting down answers empty at once and must not be polled in a tight loop.
            await self._pace.sleep(EMPTY_POLL_PAUSE_SECONDS)

    async def _handle(self, message: Message) -> None:
        match message:
            case Message("order", str(lease_id), order=dict(order)):
                entry = self.journal.entries.get(lease_id)
                if entry is None:
                    number, expires_date = self.journal.number_of(lease_id), message.expires_date or ""
                    entry = Entry(lease_id, order, number=number, expires_date=expires_date)
                if entry.result is not None:
                    self._report(entry)
                elif (part := self._part_of(entry)).script.name != "ignore":
                    await self.slot.begin(entry, part)
            case Message("cancel", str(lease_id)):
                done = await self.slot.drop(lease_id)
                await self._pace.retry(partial(self._client.answer_cancel, lease_id, done=done))
            case Message("expired", str(lease_id)):
                await self.slot.drop(lease_id, is_expired=True)
            case Message("print", action_id=str(action_id), subtype=str(subtype), content=str(content)):
                await self._print(action_id, subtype, content)
            case Message("mode", operating_mode=str(operating_mode)):
                self.panel.set_mode(operating_mode)
                self._log.info("operating_mode_changed", operating_mode=operating_mode)

    async def _print(self, action_id: str, subtype: str, content: str) -> None:
        """Print the action once in this start of the terminal, and report it each time that it is offered."""
        if action_id != self._printed:
            self.panel.show_printing(self._pace.printing_seconds)
            await self._pace.sleep(self._pace.printing_seconds)
            if subtype == "image":
                self.panel.print(image=base64.b64decode(content))
            else:
                self.panel.print(text=content)
            self._printed = action_id
        # If the service doesn't answer, it offers the action again.
        await self._client.report_print(action_id, "printed")

    def _part_of(self, entry: Entry) -> Part:
        return playlists.parse(self.journal.script).at(entry.number)

    def _report(self, entry: Entry) -> None:
        """Report the result in the journal, unless its payment is about to do so."""
        if entry.result is not None and not (self.slot.lease_id == entry.lease_id and self.slot.is_paying):
            self.slot.reporter.add(entry.lease_id)
