"""The event feed as `webhooks listen` reads it: from now on or from the beginning, across failures of the service.

The cursor is kept in memory. After a failure the credentials are read again, because a service that was started anew
may have another address and other tokens.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from paydesk.commands.client.client import NOT_PAYDESK, given
from paydesk.commands.client.credentials import credentials_path, find_credentials
from paydesk.commands.client.credentials_file import HOW_TO_START, tokens_refused
from paydesk.commands.client.failure import Failure, Unreachable
from paydesk.commands.client.options import note
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.delivery.notice import Notice
from paydesk_dev.http_client import Client, Refused, Reply

if TYPE_CHECKING:
    from aiohttp import ClientSession

WAIT_SECONDS = 25
ANSWER_SECONDS_MAX = WAIT_SECONDS + 15
PAUSE_SECONDS = (0.2, 5.0)
"""The first and the longest pause between attempts to reach the service."""
REMEMBERED = 10_000
"""The events that are remembered, so that none is repeated when the feed is read from its beginning again."""


class _About(msgspec.Struct, frozen=True):
    id: str


class _Event(msgspec.Struct, frozen=True):
    id: str
    action: str
    user_id: str
    data: _About

    def notice(self, raw: msgspec.Raw) -> Notice:
        """Return the event as the notification that it is: the same bytes. Raises `ValueError`."""
        return Notice(self.id, self.action, int(self.user_id), self.data.id, bytes(raw).decode())


class _Page(msgspec.Struct, frozen=True):
    data: list[msgspec.Raw]
    next: str


class _Away(Exception):
    """The service did not answer as it should; it is asked again, after `seconds` if it says so."""

    def __init__(self, reason: str, seconds: float = 0) -> None:
        super().__init__(reason)
        self.seconds = seconds


class _CursorRefused(Exception):
    """The service does not know the cursor any more."""


class EventFeed:
    """Reads each event of the application once, in order."""

    def __init__(self, http: ClientSession, credentials: Path | None, *, live: bool) -> None:
        self._http, self._credentials, self._live = http, credentials, live
        self.access = self._find()
        self._cursor: str | None = None
        self._seen: dict[str, None] = {}

    async def skip_to_end(self) -> None:
        """Skip all events until now. Raises `Unreachable`, `Failure`."""
        skipped = 0
        while events := await self._first_page():
            skipped += len(events)
            if skipped % 10_000 == 0:
                note(f"{skipped} earlier events skipped")

    async def _first_page(self) -> list[Notice]:
        try:
            return await self._page(0)
        except (_Away, _CursorRefused) as away:
            raise Unreachable(f"Cannot read events from {self.access.base_url}: {away}.", HOW_TO_START) from None

    async def events(self) -> AsyncIterator[Notice]:
        """Yield events until the task is cancelled. Raises `Unreachable` if the first request fails, `Failure`."""
        page = await self._first_page()
        while True:
            for event in page:
                if event.event_id not in self._seen:
                    self._seen[event.event_id] = None
                    if len(self._seen) > REMEMBERED:
                        del self._seen[next(iter(self._seen))]
                    yield event
            page = await self._next_page()

    async def _next_page(self) -> list[Notice]:
        """Return the next page, as soon as the service is there."""
        pause, longest = PAUSE_SECONDS
        is_away = False
        while True:
            try:
                page = await self._page(0 if is_away else WAIT_SECONDS)
            except _CursorRefused as refused:
                note(f"{refused} Reading from the beginning; events that were shown are not repeated.")
                self._cursor = None
            except _Away as away:
                if not is_away:
                    note(f"The service at {self.access.base_url} is away: {away}. Trying again until it is back.")
                is_away = True
                await asyncio.sleep(max(pause, min(away.seconds, 60)))
                pause = min(pause * 2, longest)
                self._find_again()
            else:
                if is_away:
                    note(f"The service is back at {self.access.base_url}.")
                return page

    async def _page(self, wait: int) -> list[Notice]:
        """Return the events after the cursor, and move it. Raises `_Away`, `_CursorRefused`, `Failure`."""
        reply = await self._get(wait)
        if reply.status == 401 and self._find_again():
            reply = await self._get(wait)
        if reply.status != 200:
            raise self._refusal(reply.refused())
        try:
            page = msgspec.json.decode(reply.raw, type=_Page)
            events = [msgspec.json.decode(event, type=_Event).notice(event) for event in page.data]
        except ValueError:  # msgspec.DecodeError too.
            raise Failure(NOT_PAYDESK) from None
        self._cursor = page.next
        return events

    async def _get(self, wait: int) -> Reply:
        query = urllib.parse.urlencode(given({"wait": wait, "after": self._cursor}))
        try:
            return await self.access.send("GET", f"/v1/events?{query}", seconds_max=ANSWER_SECONDS_MAX)
        except OSError as error:
            raise _Away(str(error)) from None

    def _refusal(self, refused: Refused) -> Exception:
        """Return what to raise for an answer that is no page."""
        status = refused.status
        if status == 429 or status >= 500:
            return _Away(f"it answered {status}", refused.retry_seconds)
        if status == 410:
            return _CursorRefused("Events were removed before they were read: they are kept for 30 days.")
        if status == 400 and self._cursor is not None and refused.code == "property_value":
            return _CursorRefused("The service has other events than before: its database was replaced.")
        if status == 401:
            return tokens_refused(credentials_path(self._credentials), self.access.base_url)
        if not refused.code:
            return Failure(f"{self.access.base_url} answered {status}. Check the address of the service.")
        return Failure(f"{refused.message} ({refused.code})")

    def _find(self) -> Client:
        """Return the client that the credentials name. Raises `WrongUsage` if they have no token."""
        credentials = find_credentials(self._credentials)
        return Client(
            self._http,
            credentials.base_url,
            Secret(credentials.access_token(live=self._live)),
            credentials.tls_context(),
        )

    def _find_again(self) -> bool:
        """Read the credentials again; return whether they changed. A missing or unreadable file changes nothing."""
        try:
            access = self._find()
        except Failure:
            return False
        changed, self.access = access != self.access, access
        return changed
