"""Reports results until the service has recorded each: no approval is lost, whatever it answers in the meantime."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine

import structlog

from paydesk_dev.http_client import Reply
from paydesk_dev.virtual.journal import Entry
from paydesk_dev.virtual.terminal.client import ServiceUnavailable, SessionEnded
from paydesk_dev.virtual.terminal.payment import Device

_log = structlog.get_logger("virtual.terminal")
_AFTER_RESULT_SEQ = 10_000

Start = Callable[[Coroutine[object, object, None], str], asyncio.Task[None]]


class Reporter:
    """Sends the results of a journal, and deletes each from it once the service has recorded it.

    `start` runs a report in the background. To cancel one loses nothing at any point. `counts` has the recorded results
    by outcome. `recorded` is called with each, and with the answer of the service.
    """

    def __init__(
        self, device: Device, start: Start, counts: Counter[str], recorded: Callable[[Entry, Reply], None]
    ) -> None:
        self._client, self._journal, self._pace = device.client, device.journal, device.pace
        self._start, self._counts, self._recorded = start, counts, recorded
        self._reports: dict[str, asyncio.Task[None]] = {}
        """The running reports, by lease."""
        self._pausing: set[str] = set()

    def add(self, lease_id: str) -> None:
        """Send the lease's result, which is in the journal, now: a report that pauses is replaced."""
        if lease_id in self._pausing:
            self._reports.pop(lease_id).cancel()
        if lease_id not in self._reports:
            self._reports[lease_id] = self._start(self._report(lease_id), "report")

    async def drained(self) -> None:
        """Return once no result is pending."""
        await asyncio.gather(*self._reports.values())

    async def stop(self) -> None:
        """Cancel all reports."""
        for report in self._reports.values():
            report.cancel()
        await asyncio.gather(*self._reports.values(), return_exceptions=True)

    async def _report(self, lease_id: str) -> None:
        failures = 0
        while (entry := self._journal.entries.get(lease_id)) and entry.result and not await self._send(entry):
            self._pausing.add(lease_id)
            try:
                await self._pace.back_off(failures)
            finally:
                self._pausing.discard(lease_id)
            failures += 1
        del self._reports[lease_id]

    async def _send(self, entry: Entry) -> bool:
        """Send the result once; return whether the service has recorded it."""
        try:
            reply = await self._client.report(entry.lease_id, entry.result_id, entry.result or {})
        except ServiceUnavailable as error:
            self._warn("report_failed", entry, reason=str(error))
            return False
        if not _is_recorded(reply):
            self._warn("report_refused", entry, status=reply.status, code=reply.code)
            return False
        if reply.status == 409:
            self._warn("report_conflicted", entry, code=reply.code)
        await self._journal.forget(entry.lease_id)
        self._counts[(entry.result or {}).get("outcome", "")] += 1
        self._recorded(entry, reply)
        is_inserted = ((entry.chosen or {}).get("card") or {}).get("entry_mode") == "chip"
        steps = ("card_removal",) * is_inserted + ("printing",) * (reply.body.get("print") is True)
        # The order has ended and nothing depends on these steps.
        with contextlib.suppress(ServiceUnavailable, SessionEnded):
            for seq, step in enumerate(steps, _AFTER_RESULT_SEQ):
                await self._client.progress(entry.lease_id, seq, step)
        return True

    def _warn(self, event: str, entry: Entry, **fields: object) -> None:
        _log.warning(event, terminal_id=self._journal.terminal_id, lease_id=entry.lease_id, **fields)


def _is_recorded(reply: Reply) -> bool:
    return 200 <= reply.status < 300 or (reply.status == 409 and reply.body.get("recorded") is True)
