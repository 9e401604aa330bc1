"""Reports results until each is recorded: no approval is ever lost, whatever the service answers meanwhile."""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from paydesk.sandbox.terminals.journal import Entry, Journal
from paydesk.sandbox.terminals.link import Away, Ended, Link, Reply
from paydesk.sandbox.terminals.pace import Pace

_log = structlog.get_logger("virtual.terminal")
_PRINTING_SEQ = 1_000


class Reporter:
    """Sends the results that are due out of a journal, and crosses each out once the service has it."""

    def __init__(self, link: Link, journal: Journal, pace: Pace) -> None:
        self._link, self._journal, self._pace = link, journal, pace
        self._due: dict[str, int] = {}
        self._more = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()

    def due(self, lease_id: str) -> None:
        """The lease's result, which the journal has, is to be sent now."""
        self._due[lease_id] = 0
        self._drained.clear()
        self._more.set()

    async def drained(self) -> None:
        """Return once nothing is left to report."""
        await self._drained.wait()

    async def run(self) -> None:
        """Report for ever; canceled at any point, it loses nothing."""
        while True:
            await self._more.wait()
            self._more.clear()
            for lease_id in list(self._due):
                await self._attempt(lease_id)
            if self._due:
                await self._wait_for_the_next_try()
            else:
                self._drained.set()

    async def _attempt(self, lease_id: str) -> None:
        entry = self._journal.entries.get(lease_id)
        if entry is None or entry.result is None or await self._report(entry, entry.result):
            self._due.pop(lease_id, None)
        elif lease_id in self._due:
            self._due[lease_id] += 1

    async def _report(self, entry: Entry, result: dict[str, object]) -> bool:
        try:
            reply = await self._link.report(entry.lease_id, entry.result_id, result)
        except Away as away:
            self._say("a result could not be reported yet", entry, reason=str(away))
            return False
        if not _is_recorded(reply):
            self._say("a result was not taken yet", entry, status=reply.status, code=reply.code)
            return False
        if reply.status == 409:
            self._say("a result was recorded and refused", entry, code=reply.code)
        await self._journal.forget(entry.lease_id)
        if reply.body.get("print") is True:
            await self._print(entry)
        return True

    async def _print(self, entry: Entry) -> None:
        # Only for show: the order has ended, and nothing depends on this step.
        with contextlib.suppress(Away, Ended):
            await self._link.progress(entry.lease_id, _PRINTING_SEQ, "printing")

    async def _wait_for_the_next_try(self) -> None:
        # A new result does not wait for the pause of an old one.
        waiting = [
            asyncio.ensure_future(self._more.wait()),
            asyncio.ensure_future(self._pace.back_off(min(self._due.values()) - 1)),
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        self._more.set()

    def _say(self, what: str, entry: Entry, **about: object) -> None:
        _log.warning(what, terminal_id=self._journal.terminal_id, lease_id=entry.lease_id, **about)


def _is_recorded(reply: Reply) -> bool:
    return 200 <= reply.status < 300 or (reply.status == 409 and reply.body.get("recorded") is True)
