"""The one order that a virtual terminal processes at a time: by a script, or by a person.

A later order, a cancel or the expiry stops it, unless it may be charged: then its result is reported.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import structlog

from paydesk_dev.http_client import Reply
from paydesk_dev.virtual.journal import ACKNOWLEDGED, AUTHORIZING, OFFERED, Entry
from paydesk_dev.virtual.scripts import playlists
from paydesk_dev.virtual.scripts.playlists import Part
from paydesk_dev.virtual.scripts.presented import paid_amount
from paydesk_dev.virtual.scripts.scripts import MANUAL
from paydesk_dev.virtual.terminal import tasks
from paydesk_dev.virtual.terminal.actions import Action, ActionNotPossible, Dialogue
from paydesk_dev.virtual.terminal.client import ServiceUnavailable, SessionEnded, Verdict
from paydesk_dev.virtual.terminal.device import RESUMED_SEQ, Device
from paydesk_dev.virtual.terminal.reporter import Reporter
from paydesk_dev.virtual.terminal.screens import Screen

TAKEN_OVER_SEQ = 100
"""The steps of a person who takes over from a script are numbered after this."""
ACKNOWLEDGED_SECONDS_MAX = 3.0
"""How long an action waits for the acknowledgement of its order."""
STORED_SECONDS_MAX = 1.0
PERMIT_SECONDS_MAX = 1.0
"""How long the action that presents the card waits for the permit."""
RECORDED_SECONDS_MAX = 0.7
"""How long an outcome is shown later, so that the service has it first."""
OUTCOME_PAUSES_SECONDS = (1, 2, 4, 8)
"""Between the questions for an unknown outcome; the last one repeats."""

_log = structlog.get_logger("virtual.terminal")


class Slot:
    """The slot for an order, and the reporter of results."""

    def __init__(self, device: Device, counts: Counter[str]) -> None:
        self.device, self._panel, self._journal = device, device.panel, device.journal
        self.reporter = Reporter(device, counts, self._recorded)
        self.lease_id = ""
        """The lease of the order, or of the last one."""
        self._payment: asyncio.Task[None] | None = None
        self._inquiry: asyncio.Task[None] | None = None
        self._dialogue: Dialogue | None = None
        self._unshown: asyncio.Future[None] | None = None
        """Done once the outcome of the order is shown."""
        self._is_closed = False

    @property
    def is_paying(self) -> bool:
        """Whether an order is in progress."""
        return self._payment is not None and not self._payment.done()

    async def offer(self, lease_id: str, order: dict[str, Any], expires_date: str) -> None:
        """Take the order that the service offers, again perhaps, unless the script ignores it."""
        entry = self._journal.entries.get(lease_id)
        if entry is None:
            entry = Entry(lease_id, order, number=self._journal.number_of(lease_id), expires_date=expires_date)
        if entry.result is not None:
            self.report(entry)
        elif self._part_of(entry).script.name != "ignore":
            await self._begin(entry)

    async def obey(self, verdict: Verdict) -> None:
        """Do with a lease of the journal what the service says."""
        entry = self._journal.entries.get(verdict.lease_id)
        log = _log.bind(terminal_id=self._journal.terminal_id, lease_id=verdict.lease_id, verdict=verdict.verdict)
        if entry is None:
            log.warning("lease_not_in_journal")
        elif entry.result is not None:
            self.report(entry)
        elif verdict.verdict == "resume":
            await self._begin(entry)
        elif verdict.verdict in ("forget", "abort"):
            await self.drop(entry.lease_id, is_over=True)
        elif verdict.verdict == "hold":
            # The payment has a permit and no result in the journal: its outcome is to be found.
            await self.stop()
            self.lease_id = entry.lease_id
            self._panel.begin(entry.order)
            self._run(partial(self.device.resume, entry))
        else:
            log.warning("verdict_unknown")

    def report(self, entry: Entry) -> None:
        """Report the result in the journal, if there is one, unless its payment is about to do so."""
        if entry.result is not None and not (self.lease_id == entry.lease_id and self.is_paying):
            self.reporter.add(entry.lease_id)

    async def _begin(self, entry: Entry) -> None:
        """Process the order unless that is running already; for the service, any earlier order has ended."""
        if self.is_paying:
            if self.lease_id == entry.lease_id:
                return
            if not await self.drop(self.lease_id):
                await self.stop()
                self.reporter.add(self.lease_id)
        # An earlier order's dialogue must not take the actions about this one.
        self.lease_id, self._dialogue = entry.lease_id, None
        self._run(partial(self._pay, entry, self._part_of(entry)))

    async def drop(self, lease_id: str, *, is_over: bool = False, is_expired: bool = False) -> bool:
        """Stop processing the order and forget it; return False if it may be charged: its result is reported.

        `is_over`: the service has the outcome, so the order is kept only if its result must still be reported.
        """
        async with self.device.lock:
            entry = self._journal.entries.get(lease_id)
            if entry is not None and (entry.result is not None or (entry.sent and not is_over)):
                return False
            if lease_id == self.lease_id:
                await self.stop()
        if entry is not None and entry.sent:
            self._find_outcome(entry)
        elif entry is not None:
            self._panel.drop(entry.order.get("id"), is_expired=is_expired)
        await self._journal.forget(lease_id)
        return True

    async def stop(self) -> None:
        """Stop processing the order; the journal keeps it."""
        self._dialogue = None
        await tasks.cancel(self._payment)

    async def close(self) -> None:
        """Stop everything; a person who waits to take over comes too late."""
        self._is_closed = True
        await self.stop()
        await tasks.cancel(self._inquiry)
        await self.reporter.stop()

    async def act(self, action: Action) -> Screen:
        """Take a person's action about the order, and return the screen after it.

        Raises `ActionNotPossible`, and `ValueError` for an unknown card.
        """
        if action.name == "press" and action.key == "cancel":
            action = Action("press_cancel")
        panel = self._panel
        await panel.until(lambda: panel.screen.name != "amount", ACKNOWLEDGED_SECONDS_MAX)
        if panel.screen.name == "amount":
            raise ActionNotPossible(panel.screen, "the service has not answered the acknowledgement of the order yet")
        if action.name not in panel.screen.actions:
            raise ActionNotPossible.on(panel.screen, action)
        if action.name == "remove_card" and (self._dialogue is None or self._dialogue.ended.is_set()):
            panel.remove_card()
            return panel.screen
        if self._dialogue is not None:
            self._dialogue.act(action)
        else:
            await self._take_over(action)
        screen, dialogue = panel.screen, self._dialogue
        if dialogue is None or not dialogue.ended.is_set():
            return screen
        if dialogue.result is None:
            await panel.until(lambda: panel.screen is not screen or not panel.link.is_up, PERMIT_SECONDS_MAX)
            return panel.screen
        if self._payment is not None:
            # The result is in the journal before the person hears of it.
            await asyncio.wait((self._payment,), timeout=STORED_SECONDS_MAX)
        return screen

    def _recorded(self, entry: Entry, reply: Reply) -> None:
        """Print the receipt of a result that the service has recorded, and find out an unknown outcome."""
        if self._panel.hidden:
            return
        if entry.lease_id == self.lease_id:
            self._show_outcome(entry, is_undone=entry.is_provisional and reply.status != 200)
        outcome = (entry.result or {}).get("outcome")
        if reply.body.get("print") is True or outcome == "declined":
            screen = self._panel.screen
            shown = screen.receipt if screen.order_id == entry.order.get("id") else None
            receipt = shown or self.device.receipt_of(entry)
            if receipt is not None and self._panel.has_paper:
                self._panel.print_receipt(receipt)
        if outcome == "unknown":
            self._find_outcome(entry)

    def _run(self, work: Callable[[], Awaitable[bool]]) -> None:
        """Run the work on the order in the background. If it returns True, its result is in the journal.

        The result is reported, and shown once the service has it or has not answered for a moment. A provisional
        approval is none before the service has accepted it.
        """
        lease_id = self.lease_id

        async def run() -> None:
            try:
                if not await work():
                    return
            except SessionEnded:
                # The running poll raises the same and ends the session.
                return
            entry = self._journal.entries[lease_id]
            self._unshown = asyncio.get_running_loop().create_future()
            self.reporter.add(lease_id)
            if not (self._panel.hidden or entry.is_provisional):
                await asyncio.wait((self._unshown,), timeout=RECORDED_SECONDS_MAX)
                self._show_outcome(entry)

        self._payment = tasks.start(run(), "payment", self._journal.terminal_id)

    def _part_of(self, entry: Entry) -> Part:
        return playlists.parse(self._journal.script, is_stored=True).at(entry.number)

    async def _pay(self, entry: Entry, part: Part) -> bool:
        device = self.device
        if entry.step == OFFERED:
            await device.pace.sleep(part.delay_seconds)
        self._panel.begin(entry.order, device.client.local_ms(entry.expires_date))
        if entry.step == AUTHORIZING and entry.chosen is not None:
            return await device.authorize(entry, entry.chosen, RESUMED_SEQ)
        if entry.step == AUTHORIZING:
            return await device.play(entry, part.script)
        acknowledged = await device.acknowledge(entry)
        if acknowledged is None:
            return False
        if part.script.name != MANUAL:
            return await device.play(acknowledged, part.script)
        assert not self._panel.hidden, "the simulation refuses the script"
        self._dialogue = Dialogue(self._panel, asks=True)
        return await device.converse(acknowledged, self._dialogue)

    def _show_outcome(self, entry: Entry, *, is_undone: bool = False) -> None:
        """Show the result, unless it was shown before; or that the sale was undone, because the result came late."""
        if self._unshown is not None and not self._unshown.done():
            self._unshown.set_result(None)
            order = self._panel.order
            if entry.result is not None and order is not None and order.order_id == entry.order.get("id"):
                has_paper = self._panel.has_paper
                outcome = order.outcome(entry.result, self.device.receipt_of(entry), has_paper=has_paper)
                self._panel.end(order.screen("undone") if is_undone else outcome)

    async def _take_over(self, action: Action) -> None:
        """Let the person go on with an order that a script plays."""
        screen = self._panel.screen
        async with self.device.lock:
            entry = self._journal.entries.get(self.lease_id)
            has_gone_on = self._is_closed or self._panel.screen is not screen
            if has_gone_on or entry is None or entry.step != ACKNOWLEDGED or entry.result:
                raise ActionNotPossible(self._panel.screen, "the terminal has gone on meanwhile")
            dialogue = Dialogue(self._panel, asks=False)
            dialogue.act(action)
            # Both at once: a stop of the terminal finds the one or the other.
            scripted, self._dialogue = self._payment, dialogue
            self._run(partial(self.device.converse, entry, dialogue, TAKEN_OVER_SEQ))
            await tasks.cancel(scripted)

    def _find_outcome(self, entry: Entry) -> None:
        """Show that the outcome is not known, until the service knows it."""
        if self._panel.warn(entry.order.get("id")):
            if self._inquiry is not None:
                self._inquiry.cancel()
            self._inquiry = tasks.start(self._inquire(entry), "inquiry", self._journal.terminal_id)

    async def _inquire(self, entry: Entry) -> None:
        """Ask the service for the outcome while the screen says that it is not known."""
        order_id, tries = entry.order.get("id"), 0
        while self._panel.is_unknown(order_id):
            await self.device.pace.sleep(OUTCOME_PAUSES_SECONDS[min(tries, len(OUTCOME_PAUSES_SECONDS) - 1)])
            tries += 1
            try:
                order = await self.device.client.order_of(entry.lease_id)
            except ServiceUnavailable:
                continue
            except SessionEnded:
                return
            if order.get("status") != "at_terminal":
                presented = entry.presented or {}
                paid = {**presented, "paid_amount": paid_amount(entry.order, presented)}
                self._panel.resolve(order_id, order.get("status", ""), paid)
