"""Reports results until the service has recorded each: no approval is lost, whatever it answers in the meantime."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable

import structlog

from paydesk_dev.http_client import Reply
from paydesk_dev.virtual.journal import Entry
from paydesk_dev.virtual.terminal import tasks
from paydesk_dev.virtual.terminal.client import ServiceUnavailable, SessionEnded
from paydesk_dev.virtual.terminal.device import Device

_log = structlog.get_logger("virtual.terminal")
_AFTER_RESULT_SEQ = 10_000


class Reporter:
    """Sends the results of a journal, and deletes each from it once the service has recorded it.

    To cancel a report loses nothing at any point. `counts` has the recorded results by outcome. `recorded` is called
    with each, and with the answer of the service.
    """

    def __init__(self, device: Device, counts: Counter[str], recorded: Callable[[Entry, Reply], None]) -> None:
        self._device, self._counts, self._recorded = device, counts, recorded
        self._reports: dict[str, asyncio.Task[None]] = {}
        """The running reports, by lease."""
        self._pausing: set[str] = set()

    def add(self, lease_id: str) -> None:
        """Send the lease's result, which is in the journal, now: a report that pauses is replaced."""
        if lease_id in self._pausing:
            self._reports.pop(lease_id).cancel()
        if lease_id not in self._reports:
            terminal_id = self._device.journal.terminal_id
            self._reports[lease_id] = tasks.start(self._report(lease_id), "report", terminal_id)

    async def drained(self) -> None:
        """Return once no result is pending."""
        await asyncio.gather(*self._reports.values())

    async def stop(self) -> None:
        """Cancel all reports."""
        await tasks.cancel(*self._reports.values())

    async def _report(self, lease_id: str) -> None:
        failures = 0
        while (entry := self._device.journal.entries.get(lease_id)) and entry.result and not await self._send(entry):
            self._pausing.add(lease_id)
            try:
                await self._device.pace.back_off(failures)
            finally:
                self._pausing.discard(lease_id)
            failures += 1
        del self._reports[lease_id]

    async def _send(self, entry: Entry) -> bool:
        """Send the result once; return whether the service has recorded it."""
        client, result = self._device.client, entry.result or {}
        about = {"terminal_id": self._device.journal.terminal_id, "lease_id": entry.lease_id}
        try:
            reply = await client.report(entry.lease_id, entry.result_id, result)
        except ServiceUnavailable as error:
            _log.warning("report_failed", **about, reason=str(error))
            return False
        if not _is_recorded(reply):
            _log.warning("report_refused", **about, status=reply.status, code=reply.code)
            return False
        if reply.status == 409:
            _log.warning("report_conflicted", **about, code=reply.code)
        await self._device.journal.forget(entry.lease_id)
        self._counts[result.get("outcome", "")] += 1
        self._recorded(entry, reply)
        panel, is_inserted = self._device.panel, ((entry.chosen or {}).get("card") or {}).get("entry_mode") == "chip"
        steps = ("card_removal",) * is_inserted + ("printing",) * (reply.body.get("print") is True and panel.has_paper)
        # The order has ended and nothing depends on these steps.
        with contextlib.suppress(ServiceUnavailable, SessionEnded):
            for seq, step in enumerate(steps, _AFTER_RESULT_SEQ):
                await client.progress(entry.lease_id, seq, step)
        return True


def _is_recorded(reply: Reply) -> bool:
    return 200 <= reply.status < 300 or (reply.status == 409 and reply.body.get("recorded") is True)
