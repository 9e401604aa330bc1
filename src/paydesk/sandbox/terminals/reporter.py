"""Reports results until the service has recorded each: no approval is lost, whatever it answers in the meantime."""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from paydesk.sandbox.terminals.client import DeviceClient, Pace, Reply, ServiceUnavailable, SessionEnded
from paydesk.sandbox.terminals.journal import Entry, Journal

_log = structlog.get_logger("virtual.terminal")
_PRINTING_SEQ = 1_000


class Reporter:
    """Sends the pending results of a journal, and deletes each from it once the service has recorded it."""

    def __init__(self, client: DeviceClient, journal: Journal, pace: Pace) -> None:
        self._client, self._journal, self._pace = client, journal, pace
        self._failures: dict[str, int] = {}
        """Of each pending result, by lease."""
        self._added = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()

    def add(self, lease_id: str) -> None:
        """Send the lease's result, which is in the journal, now."""
        self._failures[lease_id] = 0
        self._drained.clear()
        self._added.set()

    async def drained(self) -> None:
        """Return once no result is pending."""
        await self._drained.wait()

    async def run(self) -> None:
        """Report until canceled, which loses nothing at any point."""
        while True:
            await self._added.wait()
            self._added.clear()
            for lease_id in list(self._failures):
                await self._attempt(lease_id)
            if self._failures:
                await self._wait_for_next_attempt()
            else:
                self._drained.set()

    async def _attempt(self, lease_id: str) -> None:
        entry = self._journal.entries.get(lease_id)
        if entry is None or entry.result is None or await self._report(entry, entry.result):
            self._failures.pop(lease_id, None)
        elif lease_id in self._failures:
            self._failures[lease_id] += 1

    async def _report(self, entry: Entry, result: dict[str, object]) -> bool:
        try:
            reply = await self._client.report(entry.lease_id, entry.result_id, result)
        except ServiceUnavailable as error:
            self._warn("report_failed", entry, reason=str(error))
            return False
        if not _is_recorded(reply):
            self._warn("report_refused", entry, status=reply.status, code=reply.code)
            return False
        if reply.status == 409:
            self._warn("report_conflicted", entry, code=reply.code)
        await self._journal.forget(entry.lease_id)
        if reply.body.get("print") is True:
            # The order has ended and nothing depends on this step.
            with contextlib.suppress(ServiceUnavailable, SessionEnded):
                await self._client.progress(entry.lease_id, _PRINTING_SEQ, "printing")
        return True

    async def _wait_for_next_attempt(self) -> None:
        # A new result does not wait for the pause of an old one.
        waiting = [
            asyncio.ensure_future(self._added.wait()),
            asyncio.ensure_future(self._pace.back_off(min(self._failures.values()) - 1)),
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        self._added.set()

    def _warn(self, event: str, entry: Entry, **fields: object) -> None:
        _log.warning(event, terminal_id=self._journal.terminal_id, lease_id=entry.lease_id, **fields)


def _is_recorded(reply: Reply) -> bool:
    return 200 <= reply.status < 300 or (reply.status == 409 and reply.body.get("recorded") is True)
