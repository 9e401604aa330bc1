"""A virtual terminal: it keeps a session with the service and processes one order after another.

It uses only the terminal protocol, so to the service it is like any physical terminal.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from paydesk.device.schemas import Message
from paydesk.sandbox.terminals import manual, playlists
from paydesk.sandbox.terminals.actions import Action, ActionNotPossible
from paydesk.sandbox.terminals.client import DeviceClient, Pace, ServiceUnavailable, SessionEnded, Verdict
from paydesk.sandbox.terminals.dialogue import Dialogue
from paydesk.sandbox.terminals.journal import ACKNOWLEDGED, AUTHORIZING, OFFERED, Entry, Journal
from paydesk.sandbox.terminals.network import FlakyNetwork
from paydesk.sandbox.terminals.panel import Panel
from paydesk.sandbox.terminals.payment import (
    NEVER_CHARGED,
    Device,
    acknowledge,
    conclude,
    play,
    receipt_of,
    resume_authorization,
    resume_permit,
    show_outcome,
)
from paydesk.sandbox.terminals.playlists import Part
from paydesk.sandbox.terminals.reporter import Reporter
from paydesk.sandbox.terminals.screen import Screen
from paydesk.sandbox.terminals.scripts import MANUAL

TAKEN_OVER_SEQ = 100
"""The steps of a person who takes over from a script are numbered after this."""
ACKNOWLEDGED_SECONDS_MAX = 3.0
"""How long an action waits for the acknowledgement of its order."""
OUTCOME_PAUSES_SECONDS = (1, 2, 4, 8)
"""Between the questions for an unknown outcome; the last one repeats."""
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
        self._client, self._journal, self._panel = client, journal, panel or Panel(journal.kind)
        client.link, client.messages = self._panel.link, self._panel.display
        pace = pace or Pace()
        self._pace = replace(pace, between_tries=partial(client.link.wait, pace.sleep))
        self._lock = asyncio.Lock()
        self._device = Device(client, journal, self._pace, self._lock, self._panel)
        self._reporter = Reporter(
            client, journal, self._pace, self._in_background, self._counts, recorded=self._recorded
        )
        self._running: asyncio.Task[None] | None = None
        self._payment: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._dialogue: Dialogue | None = None
        self._lease_id = ""
        self._printed = ""
        self._log = structlog.get_logger("virtual.terminal").bind(terminal_id=journal.terminal_id)
        self.settled = asyncio.Event()
        """Set once the service has accepted or refused the first hello."""
        self.is_connected = False
        self._set_network()

    @property
    def operating_mode(self) -> str:
        """The operating mode, empty before the first hello."""
        return self._panel.operating_mode

    @property
    def is_paying(self) -> bool:
        """Whether an order is in progress."""
        return self._payment is not None and not self._payment.done()

    def start(self) -> None:
        """Start in the background."""
        assert self._running is None, "a terminal is started once; create another for the next start"
        self._running = self._in_background(self._run(), "terminal")

    async def stop(self) -> None:
        """Stop at once; the next start continues from the journal."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def set_script(self, script: str) -> None:
        """Change the script from the next order on. Raises `ValueError` for an unknown one."""
        await self._journal.set_script(str(playlists.parse(script)))
        self._set_network()

    async def act(self, action: Action) -> Screen:
        """Take an action about the order. Raises `ActionNotPossible`, and `ValueError` for an unknown card."""
        await self._until_acknowledged()
        screen = self._panel.screen
        if action.name not in screen.actions:
            raise ActionNotPossible(screen, f"the screen {screen.name} does not take {action.name}")
        if action.name == "remove_card":
            self._panel.remove_card()
        elif self._dialogue is not None:
            self._dialogue.act(action)
        else:
            await self._take_over(action)
        return self._panel.screen

    async def _until_acknowledged(self) -> None:
        """Wait until the service has the acknowledgement of the order, for some seconds."""
        display, deadline = self._panel.display, time.monotonic() + ACKNOWLEDGED_SECONDS_MAX
        while display.screen.name == "amount" and (left := deadline - time.monotonic()) > 0:
            await display.changed(display.revision, left)
        if display.screen.name == "amount":
            raise ActionNotPossible(display.screen, "the service has not answered the acknowledgement of the order yet")

    async def _take_over(self, action: Action) -> None:
        """Let the person go on with an order that a script plays."""
        screen = self._panel.screen
        async with self._lock:
            entry = self._journal.entries.get(self._lease_id)
            if self._panel.screen is not screen or entry is None or entry.step != ACKNOWLEDGED or entry.result:
                raise ActionNotPossible(self._panel.screen, "the terminal has gone on meanwhile")
            dialogue = Dialogue(self._panel, entry.order, self._device.expires_ms(entry), asks=False)
            dialogue.act(action)
            await self._stop_payment()
            self._payment = self._in_background(self._converse(entry, dialogue, TAKEN_OVER_SEQ), "payment")

    def _set_network(self) -> None:
        probability = playlists.parse(self._journal.script).flaky
        if self._client.network is not None:
            self._client.network.probability = probability
        elif probability:
            self._client.network = FlakyNetwork(probability, self._seed, self._counts)

    async def _run(self) -> None:
        try:
            for entry in self._journal.entries.values():
                self._report(entry)
            await self._sessions()
        except SessionEnded as error:
            self.settled.set()
            self._panel.disconnected(f"The session has ended: {error}", None)
            self._log.warning("virtual_terminal_stopped", reason=str(error))
            await self._stop_payment()
            # The service accepts results without a session.
            await self._reporter.drained()
        finally:
            self.is_connected = False
            await self._stop_payment()
            await self._stop_following()
            await self._reporter.stop()
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
                self.is_connected = False
                reason = "The service does not answer" if self._client.link.is_up else "The network is down"
                self._panel.disconnected(reason, self._pace.pause(failures))
                self._log.info("service_unavailable", reason=str(error), pause_seconds=self._pace.pause(failures))
                await self._pace.back_off(failures)
                failures += 1

    async def _hello(self) -> None:
        # While a payment waits for an answer, the journal is incomplete, so a verdict on it would be outdated.
        async with self._lock:
            welcome = await self._client.hello(self._journal.entries.values())
        self._panel.connected(welcome.operating_mode, welcome.seller_name)
        for verdict in welcome.leases:
            await self._obey(verdict)
        self.is_connected = True
        self.settled.set()

    async def _obey(self, verdict: Verdict) -> None:
        entry = self._journal.entries.get(verdict.lease_id)
        if entry is None:
            self._log.warning("lease_not_in_journal", lease_id=verdict.lease_id, verdict=verdict.verdict)
        elif entry.result is not None:
            self._report(entry)
        elif verdict.verdict == "resume":
            await self._begin(entry)
        elif verdict.verdict in ("forget", "abort"):
            await self._drop(entry.lease_id, is_over=True)
        elif verdict.verdict == "hold":
            await self._stop_payment()
            self._lease_id = entry.lease_id
            self._payment = self._in_background(self._hold(entry), "payment")
        else:
            self._log.warning("verdict_unknown", lease_id=entry.lease_id, verdict=verdict.verdict)

    async def _poll(self) -> None:
        started = time.monotonic()
        message = await self._client.next(self._pace.poll_seconds)
        if message is not None:
            await self._handle(message)
        elif time.monotonic() - started < EMPTY_POLL_SECONDS_MIN:
            # A service that is shutting down answers empty at once and must not be polled in a tight loop.
            await self._pace.sleep(EMPTY_POLL_PAUSE_SECONDS)

    async def _handle(self, message: Message) -> None:
        match message:
            case Message("order", str(lease_id), order=dict(order)):
                await self._offered(lease_id, order, message.expires_date or "")
            case Message("cancel", str(lease_id)):
                done = await self._drop(lease_id)
                await self._pace.retry(partial(self._client.answer_cancel, lease_id, done=done))
            case Message("expired", str(lease_id)):
                await self._drop(lease_id, is_expired=True)
            case Message("print", action_id=str(action_id), subtype=str(subtype), content=str(content)):
                await self._print(action_id, subtype, content)
            case Message("mode", operating_mode=str(operating_mode)):
                self._panel.set_mode(operating_mode)
                self._log.info("operating_mode_changed", operating_mode=operating_mode)

    async def _print(self, action_id: str, subtype: str, content: str) -> None:
        """Print the action once in this start of the terminal, and report it each time that it is offered."""
        if action_id != self._printed:
            self._panel.show_printing(self._pace.printing_seconds)
            await self._pace.sleep(self._pace.printing_seconds)
            self._panel.print_content(subtype, content)
            self._printed = action_id
        # If the service doesn't answer, it offers the action again.
        await self._client.report_print(action_id, "printed")

    async def _offered(self, lease_id: str, order: dict[str, Any], expires_date: str) -> None:
        entry = self._journal.entries.get(lease_id)
        if entry is None:
            entry = Entry(lease_id, order, number=self._journal.number_of(lease_id), expires_date=expires_date)
        if entry.result is not None:
            self._report(entry)
        elif self._part_of(entry).script.name != "ignore":
            await self._begin(entry)

    def _part_of(self, entry: Entry) -> Part:
        return playlists.parse(self._journal.script).at(entry.number)

    async def _begin(self, entry: Entry) -> None:
        """Process the order unless that is running already; for the service, any earlier order has ended."""
        if self.is_paying:
            if self._lease_id == entry.lease_id:
                return
            if not await self._drop(self._lease_id):
                await self._stop_payment()
                self._reporter.add(self._lease_id)
        self._lease_id = entry.lease_id
        self._payment = self._in_background(self._pay(entry), "payment")

    async def _pay(self, entry: Entry) -> None:
        script, delay_seconds = self._part_of(entry).script, self._part_of(entry).delay_seconds
        if entry.step == OFFERED:
            await self._pace.sleep(delay_seconds)
        self._panel.begin(entry.order)
        try:
            if entry.step == AUTHORIZING and entry.chosen is not None:
                has_result = await resume_permit(self._device, entry, entry.chosen)
            elif script.name == MANUAL and entry.step != AUTHORIZING:
                if not await acknowledge(self._device, entry):
                    return
                entry = self._journal.entries[entry.lease_id]
                dialogue = Dialogue(self._panel, entry.order, self._device.expires_ms(entry))
                dialogue.begin()
                await self._converse(entry, dialogue)
                return
            else:
                has_result = await play(self._device, entry, script)
        except SessionEnded:
            # The running poll raises the same and ends the session.
            return
        if has_result:
            self._reporter.add(entry.lease_id)

    async def _converse(self, entry: Entry, dialogue: Dialogue, seq: int = 0) -> None:
        """Have a person process the order, whose dialogue has begun."""
        self._dialogue = dialogue
        try:
            if await manual.play(self._device, entry, dialogue, seq):
                self._reporter.add(entry.lease_id)
        except SessionEnded:
            return
        finally:
            if self._dialogue is dialogue:
                self._dialogue = None

    async def _hold(self, entry: Entry) -> None:
        """Find the outcome of a payment with a permit and no result in the journal."""
        self._panel.begin(entry.order)
        if not entry.sent:
            await conclude(self._device, entry, NEVER_CHARGED)
        else:
            try:
                await resume_authorization(self._device, entry)
            except SessionEnded:
                # The running poll raises the same; the entry stays in the journal.
                return
        show_outcome(self._device, entry.lease_id)
        self._reporter.add(entry.lease_id)

    def _recorded(self, entry: Entry, prints: bool) -> None:  # noqa: FBT001 - as the reporter calls it
        """Print the receipt of a recorded result, and find out an unknown outcome."""
        outcome = (entry.result or {}).get("outcome")
        if prints or outcome == "declined":
            receipt = receipt_of(self._device, entry)
            if receipt is not None:
                self._panel.print(receipt)
        if outcome == "unknown":
            self._following = self._in_background(self._follow(entry), "outcome")

    async def _follow(self, entry: Entry) -> None:
        """Ask the service for the outcome while the screen says that it is not known."""
        tries = 0
        while self._panel.is_unknown(entry.order.get("id")):
            await self._pace.sleep(OUTCOME_PAUSES_SECONDS[min(tries, len(OUTCOME_PAUSES_SECONDS) - 1)])
            tries += 1
            try:
                order = await self._client.order_of(entry.lease_id)
            except ServiceUnavailable:
                continue
            except SessionEnded:
                return
            if order.get("status") != "at_terminal":
                self._panel.resolve(entry.order.get("id"), order)

    async def _stop_following(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    def _report(self, entry: Entry) -> None:
        if entry.result is not None and not (self._lease_id == entry.lease_id and self.is_paying):
            self._reporter.add(entry.lease_id)

    async def _drop(self, lease_id: str, *, is_over: bool = False, is_expired: bool = False) -> bool:
        """Stop processing the order and forget it; return False if it may be charged: its result is reported.

        `is_over`: the service has the outcome, so the order is kept only if its result must still be reported.
        """
        async with self._lock:
            entry = self._journal.entries.get(lease_id)
            if entry is not None and (entry.result is not None or (entry.sent and not is_over)):
                return False
            if lease_id == self._lease_id:
                await self._stop_payment()
        if entry is not None:
            self._panel.drop(entry.order.get("id"), is_expired=is_expired)
        await self._journal.forget(lease_id)
        return True

    async def _stop_payment(self) -> None:
        if self._payment is not None:
            self._payment.cancel()
            await asyncio.gather(self._payment, return_exceptions=True)

    def _in_background(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"{name} of {self._journal.terminal_id}")
        task.add_done_callback(self._log_failure)
        return task

    def _log_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("virtual_terminal_failed", exc_info=error)
