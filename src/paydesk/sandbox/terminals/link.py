"""The terminal's side of `/device/v1`: a method per call of the protocol, and what can go wrong with it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from paydesk import __version__
from paydesk.core.secrets import Secret
from paydesk.sandbox.terminals.journal import Entry
from paydesk.sandbox.terminals.messages import Message, Welcome, message_of

if TYPE_CHECKING:
    import aiohttp

CALL_SECONDS_MAX = 10.0


class Away(Exception):
    """The service is out of reach or can't answer now; later it may."""


class Ended(Exception):
    """This session is over: the token is refused, or a later start of the terminal took over."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its status, its bytes, and the object in them (empty where there is none)."""

    status: int
    raw: bytes
    body: dict[str, Any]

    @property
    def code(self) -> str:
        """The error's code, or nothing."""
        return str(self.body.get("error", ""))


class Link:
    """What one start of a terminal, with a boot id of its own, says to the service."""

    def __init__(self, http: aiohttp.ClientSession, base_url: str, device_token: Secret) -> None:
        self._http, self._base, self._token = http, base_url.rstrip("/"), device_token
        self.boot_id = str(uuid4())
        self._service_time: tuple[datetime, float] | None = None

    async def hello(self, entries: Iterable[Entry]) -> Welcome:
        """Begin the session, or begin it again; the service's word on every lease in the journal."""
        reply = await self._in_session(
            "POST", "/hello", {"app_version": __version__, "journal": [_told(entry) for entry in entries]}
        )
        if reply.status != 200:
            raise Away(f"hello was answered with {reply.status} {reply.code}")
        try:
            return msgspec.json.decode(reply.raw, type=Welcome)
        except msgspec.DecodeError as error:
            raise Away(f"hello's answer is unreadable: {error}") from None

    async def next(self, wait_seconds: int) -> Message | None:
        """The next message; None where none came in time, or one that this terminal does not know."""
        path = f"/next?boot_id={self.boot_id}&wait={wait_seconds}"
        reply = await self._in_session("GET", path, None, wait_seconds + CALL_SECONDS_MAX)
        if reply.status == 204:
            return None
        if reply.status != 200:
            raise Away(f"next was answered with {reply.status} {reply.code}")
        return message_of(reply.raw)

    async def acknowledge(self, lease_id: str) -> Reply:
        """The order has arrived and is shown."""
        return await self._in_session("POST", f"/leases/{lease_id}/ack", {})

    async def progress(self, lease_id: str, seq: int, step: str) -> Reply:
        """How far the payment has come; `authorizing` asks for the grant."""
        return await self._in_session("POST", f"/leases/{lease_id}/progress", {"seq": seq, "step": step})

    async def answer_cancel(self, lease_id: str, *, done: bool) -> Reply:
        """Whether the terminal gave the order back."""
        return await self._in_session("POST", f"/leases/{lease_id}/cancel-result", {"done": done})

    async def report(self, lease_id: str, result_id: str, result: dict[str, Any]) -> Reply:
        """Send a result. It is taken from an earlier session and under a revoked token too, so neither ends here."""
        return await self._call("PUT", f"/leases/{lease_id}/results/{result_id}", result)

    async def ask_acquirer(self, request: dict[str, Any]) -> Reply:
        """Ask for the authorization, under the payment's id. The acquirer is somebody else, behind another door."""
        return await self._send("POST", "/virtual/v1/acquirer/payments", request, CALL_SECONDS_MAX)

    def is_before(self, until: str) -> bool:
        """Whether the instant is yet to come by the service's clock, as far as it has been told."""
        end = _instant(until)
        if self._service_time is None or end is None:
            return False
        told, at = self._service_time
        return told + timedelta(seconds=time.monotonic() - at) < end

    async def _in_session(
        self, method: str, path: str, body: dict[str, Any] | None, seconds_max: float = CALL_SECONDS_MAX
    ) -> Reply:
        reply = await self._call(method, path, body, seconds_max)
        if reply.status == 401:
            raise Ended("the device token is refused")
        if reply.status == 409 and reply.code == "stale_session":
            # The boot id is drawn once a start, so a newer one is another's.
            raise Ended("the terminal was started elsewhere")
        return reply

    async def _call(
        self, method: str, path: str, body: dict[str, Any] | None, seconds_max: float = CALL_SECONDS_MAX
    ) -> Reply:
        sent = time.monotonic()
        content = None if body is None else {"boot_id": self.boot_id, **body}
        reply = await self._send(method, f"/device/v1{path}", content, seconds_max)
        self._learn_time(reply, sent)
        return reply

    async def _send(self, method: str, path: str, body: dict[str, Any] | None, seconds_max: float) -> Reply:
        from aiohttp import ClientError, ClientTimeout

        content = None if body is None else msgspec.json.encode(body)
        headers = {"Authorization": f"Bearer {self._token.reveal()}", "Content-Type": "application/json"}
        try:
            async with self._http.request(
                method,
                self._base + path,
                data=content,
                headers=headers,
                timeout=ClientTimeout(total=seconds_max),
                allow_redirects=False,
            ) as answer:
                raw = await answer.read()
                reply = Reply(answer.status, raw, _object_of(raw))
        except (TimeoutError, ClientError, OSError) as error:
            raise Away(f"{type(error).__name__}: {error}") from None
        if reply.status in (408, 429) or reply.status >= 500:
            raise Away(f"{method} was answered with {reply.status} {reply.code}")
        return reply

    def _learn_time(self, reply: Reply, sent: float) -> None:
        # The service's clock may be frozen or moved in development, so the newest telling counts. It is dated back to
        # when the question was sent: what is taken for the service's time is never behind it.
        told = _instant(reply.body.get("time"))
        if told is not None:
            self._service_time = told, sent


def _told(entry: Entry) -> dict[str, Any]:
    told: dict[str, Any] = {"lease_id": entry.lease_id, "last_step": entry.step}
    if entry.result is not None:
        told["result"] = entry.result
    return told


def _object_of(raw: bytes) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(raw) if raw else {}
    except msgspec.DecodeError:
        return {}
    return body if isinstance(body, dict) else {}


def _instant(text: object) -> datetime | None:
    try:
        instant = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return instant if instant is not None and instant.tzinfo is not None else None
