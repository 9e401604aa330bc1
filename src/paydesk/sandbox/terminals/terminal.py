"""The virtual terminal without a face: one session after another with the service, one order after another.

It knows nothing of the service but the terminal protocol, and is as real to it as any device.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from functools import partial

import structlog

from paydesk.sandbox.terminals import cards, scripts
from paydesk.sandbox.terminals.journal import Entry, Journal
from paydesk.sandbox.terminals.link import Away, Ended, Link
from paydesk.sandbox.terminals.messages import CancelAsked, Expired, Message, ModeChanged, OrderOffered, Verdict
from paydesk.sandbox.terminals.pace import Pace
from paydesk.sandbox.terminals.payment import Device, ask_again, conclude, insist, play
from paydesk.sandbox.terminals.reporter import Reporter

EARLY_SECONDS, COALESCE_SECONDS = 1.0, 0.2


class Terminal:
    """One start of a terminal: made from its journal, ended by `stop` or by losing its session."""

    def __init__(self, link: Link, journal: Journal, pace: Pace | None = None) -> None:
        self._link, self._journal, self._pace = link, journal, pace or Pace()
        self._asking = asyncio.Lock()
        self._device = Device(link, journal, self._pace, self._asking)
        self._reporter = Reporter(link, journal, self._pace)
        self._running: asyncio.Task[None] | None = None
        self._payment: asyncio.Task[None] | None = None
        self._lease_id = ""
        self._log = structlog.get_logger("virtual.terminal").bind(terminal_id=journal.terminal_id)
        self.operating_mode = ""
        self.settled = asyncio.Event()
        """Set once the service has answered the first hello, be it with a refusal."""

    def start(self) -> None:
        """Begin to run in the background."""
        assert self._running is None, "a terminal is started once; make another for the next start"
        self._running = self._in_background(self._run(), "terminal")

    async def stop(self) -> None:
        """End at once, whatever is under way; the journal is whole, and the next start goes on from it."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def set_script(self, script: str) -> None:
        """Play another script from the next order on. Raises `ValueError` for one that there is not."""
        await self._journal.set_script(str(scripts.parse(script)))

    async def _run(self) -> None:
        reporting = self._in_background(self._reporter.run(), "reporter")
        try:
            for entry in self._journal.entries.values():
                self._report(entry)
            await self._sessions()
        except Ended as ended:
            self.settled.set()
            self._log.warning("virtual terminal stops", reason=str(ended))
            await self._stop_payment()
            # Results are taken whatever became of the session.
            await self._reporter.drained()
        finally:
            reporting.cancel()
            await self._stop_payment()
            await asyncio.gather(reporting, return_exceptions=True)

    async def _sessions(self) -> None:
        failures = 0
        while True:
            try:
                await self._hello()
                while True:
                    await self._poll()
                    failures = 0
            except Away as away:
                self._log.info(
                    "the service is out of reach", reason=str(away), pause_seconds=self._pace.pause(failures)
                )
                await self._pace.back_off(failures)
                failures += 1

    async def _hello(self) -> None:
        # While the service is being asked about an order, the journal is behind: its verdict would be of the past.
        async with self._asking:
            welcome = await self._link.hello(self._journal.entries.values())
        self.operating_mode = welcome.operating_mode
        for verdict in welcome.leases:
            await self._obey(verdict)
        self.settled.set()

    async def _obey(self, verdict: Verdict) -> None:
        entry = self._journal.entries.get(verdict.lease_id)
        if entry is None:
            self._log.warning("the journal lacks a lease", lease_id=verdict.lease_id, verdict=verdict.verdict)
        elif entry.result is not None:
            self._report(entry)
        elif verdict.verdict == "resume":
            await self._begin(entry)
        elif verdict.verdict in ("forget", "abort"):
            await self._give_up(entry.lease_id, is_over=True)
        elif verdict.verdict == "hold":
            await self._stop_payment()
            self._lease_id = entry.lease_id
            self._payment = self._in_background(self._hold(entry), "payment")
        else:
            self._log.warning("a verdict is not known here", lease_id=entry.lease_id, verdict=verdict.verdict)

    async def _poll(self) -> None:
        asked = time.monotonic()
        message = await self._link.next(self._pace.poll_seconds)
        if message is not None:
            await self._take(message)
        elif time.monotonic() - asked < EARLY_SECONDS:
            # Nothing, and at once: a service that is going away must not be asked in a tight loop.
            await self._pace.sleep(COALESCE_SECONDS)

    async def _take(self, message: Message) -> None:
        match message:
            case OrderOffered(lease_id, order):
                await self._offered(lease_id, order)
            case CancelAsked(lease_id):
                done = await self._give_up(lease_id)
                await insist(self._pace, partial(self._link.answer_cancel, lease_id, done=done))
            case Expired(lease_id):
                await self._give_up(lease_id)
            case ModeChanged(operating_mode):
                self.operating_mode = operating_mode
                self._log.info("the operating mode changed", operating_mode=operating_mode)

    async def _offered(self, lease_id: str, order: dict[str, object]) -> None:
        entry = self._journal.entries.get(lease_id) or Entry(lease_id, order)
        if entry.result is not None:
            self._report(entry)
        elif scripts.parse(self._journal.script).name != "ignore":
            await self._begin(entry)

    async def _begin(self, entry: Entry) -> None:
        """Work on the order, unless that is under way; one that was before it has ended for the service."""
        if self._payment is not None and not self._payment.done():
            if self._lease_id == entry.lease_id:
                return
            if not await self._give_up(self._lease_id):
                await self._stop_payment()
                self._reporter.due(self._lease_id)
        self._lease_id = entry.lease_id
        self._payment = self._in_background(self._pay(entry), "payment")

    async def _pay(self, entry: Entry) -> None:
        try:
            if await play(self._device, entry, scripts.parse(self._journal.script)):
                self._reporter.due(entry.lease_id)
        except Ended:
            # The poll that is under way learns the same and ends the session.
            return

    async def _hold(self, entry: Entry) -> None:
        """Granted, and the journal has no outcome: find out what was charged, where anything can have been."""
        if entry.presented is None:
            # By its own book this terminal never went to the acquirer.
            await conclude(self._device, entry, cards.never_charged())
        else:
            await ask_again(self._device, entry)
        self._reporter.due(entry.lease_id)

    def _report(self, entry: Entry) -> None:
        at_the_acquirer = self._lease_id == entry.lease_id and self._payment is not None and not self._payment.done()
        if entry.result is not None and not at_the_acquirer:
            self._reporter.due(entry.lease_id)

    async def _give_up(self, lease_id: str, *, is_over: bool = False) -> bool:
        """Stop working on the order and cross it out; False when it may be charged, which is reported all the same.

        `is_over`: the service knows how it ended, so that a result alone is still to be told.
        """
        async with self._asking:
            entry = self._journal.entries.get(lease_id)
            if entry is not None and (entry.result is not None or (entry.presented is not None and not is_over)):
                return False
            if lease_id == self._lease_id:
                await self._stop_payment()
        await self._journal.forget(lease_id)
        return True

    async def _stop_payment(self) -> None:
        if self._payment is not None:
            self._payment.cancel()
            await asyncio.gather(self._payment, return_exceptions=True)

    def _in_background(self, work: Coroutine[object, object, None], what: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"{what} of {self._journal.terminal_id}")
        task.add_done_callback(self._tell_failure)
        return task

    def _tell_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("a virtual terminal failed; its journal has how far it came", exc_info=error)
