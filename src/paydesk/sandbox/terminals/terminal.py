"""A virtual terminal: it keeps a session with the service and processes one order after another.

It uses only the terminal protocol, so to the service it is like any physical terminal.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine
from functools import partial

import structlog

from paydesk.device.schemas import Message
from paydesk.sandbox.terminals import playlists
from paydesk.sandbox.terminals.client import DeviceClient, Pace, ServiceUnavailable, SessionEnded, Verdict
from paydesk.sandbox.terminals.journal import OFFERED, Entry, Journal
from paydesk.sandbox.terminals.network import FlakyNetwork
from paydesk.sandbox.terminals.payment import NEVER_CHARGED, Device, conclude, play, resume_authorization
from paydesk.sandbox.terminals.playlists import Part
from paydesk.sandbox.terminals.reporter import Reporter

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
    ) -> None:
        self._seed, self._counts = seed, Counter[str]() if counts is None else counts
        self._client, self._journal, self._pace = client, journal, pace or Pace()
        self._lock = asyncio.Lock()
        self._device = Device(client, journal, self._pace, self._lock)
        self._reporter = Reporter(client, journal, self._pace, self._in_background, self._counts)
        self._running: asyncio.Task[None] | None = None
        self._payment: asyncio.Task[None] | None = None
        self._lease_id = ""
        self._log = structlog.get_logger("virtual.terminal").bind(terminal_id=journal.terminal_id)
        self.operating_mode = ""
        self.settled = asyncio.Event()
        """Set once the service has accepted or refused the first hello."""
        self.is_connected = False
        self._set_network()

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
            self._log.warning("virtual_terminal_stopped", reason=str(error))
            await self._stop_payment()
            # The service accepts results without a session.
            await self._reporter.drained()
        finally:
            self.is_connected = False
            await self._stop_payment()
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
                self._log.info("service_unavailable", reason=str(error), pause_seconds=self._pace.pause(failures))
                await self._pace.back_off(failures)
                failures += 1

    async def _hello(self) -> None:
        # While a payment waits for an answer, the journal is incomplete, so a verdict on it would be outdated.
        async with self._lock:
            welcome = await self._client.hello(self._journal.entries.values())
        self.operating_mode = welcome.operating_mode
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
                await self._offered(lease_id, order)
            case Message("cancel", str(lease_id)):
                done = await self._drop(lease_id)
                await self._pace.retry(partial(self._client.answer_cancel, lease_id, done=done))
            case Message("expired", str(lease_id)):
                await self._drop(lease_id)
            case Message("mode", operating_mode=str(operating_mode)):
                self.operating_mode = operating_mode
                self._log.info("operating_mode_changed", operating_mode=operating_mode)

    async def _offered(self, lease_id: str, order: dict[str, object]) -> None:
        entry = self._journal.entries.get(lease_id)
        if entry is None:
            entry = Entry(lease_id, order, number=self._journal.number_of(lease_id))
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
        part = self._part_of(entry)
        try:
            if entry.step == OFFERED:
                await self._pace.sleep(part.delay_seconds)
            if await play(self._device, entry, part.script):
                self._reporter.add(entry.lease_id)
        except SessionEnded:
            # The running poll raises the same and ends the session.
            return

    async def _hold(self, entry: Entry) -> None:
        """Find the outcome of a payment with a permit and no result in the journal."""
        if not entry.sent:
            await conclude(self._device, entry, NEVER_CHARGED)
        else:
            try:
                await resume_authorization(self._device, entry)
            except SessionEnded:
                # The running poll raises the same; the entry stays in the journal.
                return
        self._reporter.add(entry.lease_id)

    def _report(self, entry: Entry) -> None:
        if entry.result is not None and not (self._lease_id == entry.lease_id and self.is_paying):
            self._reporter.add(entry.lease_id)

    async def _drop(self, lease_id: str, *, is_over: bool = False) -> bool:
        """Stop processing the order and forget it; return False if it may be charged: its result is reported.

        `is_over`: the service has the outcome, so the order is kept only if its result must still be reported.
        """
        async with self._lock:
            entry = self._journal.entries.get(lease_id)
            if entry is not None and (entry.result is not None or (entry.sent and not is_over)):
                return False
            if lease_id == self._lease_id:
                await self._stop_payment()
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
