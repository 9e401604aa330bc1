"""HTTP client of the terminal protocol (`/device/v1`): its calls, its messages, and the pauses between attempts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from paydesk import __version__
from paydesk.core.secrets import Secret
from paydesk.device.schemas import Message
from paydesk.sandbox.terminals.journal import Entry
from paydesk.sandbox.terminals.network import FlakyNetwork, MessageLost

if TYPE_CHECKING:
    import aiohttp

CALL_SECONDS_MAX = 10.0
AUTHORIZE_SECONDS_MAX = 35.0
"""The service gives the acquirer 25 s."""


class ServiceUnavailable(Exception):
    """The service cannot be reached or cannot answer now. Retry."""


class SessionEnded(Exception):
    """The session is over: the token was refused, or a later start of the terminal replaced it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a terminal polls and pauses. `sleep` is injected, so that tests do not wait."""

    poll_seconds: int = 25
    backoff_seconds: tuple[float, ...] = (1, 2, 4, 8, 16, 32, 60)
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after that many earlier failures in a row; the last value repeats."""
        return self.backoff_seconds[min(failures, len(self.backoff_seconds) - 1)]

    async def back_off(self, failures: int) -> None:
        """Wait for that pause."""
        await self.sleep(self.pause(failures))

    async def retry(self, call: Callable[[], Awaitable[Reply]]) -> Reply:
        """Repeat the call until the service answers."""
        failures = 0
        while True:
            try:
                return await call()
            except ServiceUnavailable:
                await self.back_off(failures)
                failures += 1


class Verdict(msgspec.Struct, frozen=True):
    """What to do with a lease after a hello: resume, forget, abort, report or hold."""

    lease_id: str
    verdict: str


class Welcome(msgspec.Struct, frozen=True):
    """The answer to a hello. Unknown fields are ignored, here and in messages."""

    operating_mode: str = ""
    leases: list[Verdict] = []


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer: its status, its body, and the JSON object in the body (empty where there is none)."""

    status: int
    raw: bytes
    body: dict[str, Any]

    @property
    def code(self) -> str:
        """The error code, or an empty string."""
        return str(self.body.get("error", ""))


class DeviceClient:
    """The client of one start of a terminal, with its own boot id.

    Every method raises `ServiceUnavailable`; those that need the session raise `SessionEnded` too.
    """

    def __init__(self, http: aiohttp.ClientSession, base_url: str, device_token: Secret) -> None:
        self._http, self._base_url, self._token = http, base_url.rstrip("/"), device_token
        self.boot_id = str(uuid4())
        self.network: FlakyNetwork | None = None
        """What loses, doubles, delays and reorders messages, if anything does."""
        self._service_time: tuple[datetime, float] | None = None

    async def hello(self, entries: Iterable[Entry]) -> Welcome:
        """Start or restart the session; return the service's verdict on each lease in the journal."""
        body = {"app_version": __version__, "journal": [_lease_state(entry) for entry in entries]}
        reply = _successful("hello", await self._in_session("POST", "/hello", body))
        try:
            return msgspec.json.decode(reply.raw, type=Welcome)
        except msgspec.DecodeError as error:
            raise ServiceUnavailable(f"the answer to hello is invalid: {error}") from None

    async def next(self, wait_seconds: int) -> Message | None:
        """Wait for the next message. Return None if none came in time, or one of an unknown type."""
        path = f"/next?boot_id={self.boot_id}&wait={wait_seconds}"
        reply = await self._in_session("GET", path, None, wait_seconds + CALL_SECONDS_MAX)
        if reply.status == 204:
            return None
        try:
            return msgspec.json.decode(_successful("next", reply).raw, type=Message)
        except msgspec.DecodeError:
            return None

    async def acknowledge(self, lease_id: str) -> Reply:
        """Acknowledge that the order has arrived and is displayed."""
        return await self._in_session("POST", f"/leases/{lease_id}/ack", {})

    async def progress(self, lease_id: str, seq: int, step: str) -> Reply:
        """Report a step of the payment; `authorizing` requests the authorization permit."""
        return await self._in_session("POST", f"/leases/{lease_id}/progress", {"seq": seq, "step": step})

    async def answer_cancel(self, lease_id: str, *, done: bool) -> Reply:
        """Report whether the terminal released the order."""
        return await self._in_session("POST", f"/leases/{lease_id}/cancel-result", {"done": done})

    async def report(self, lease_id: str, result_id: str, result: dict[str, Any]) -> Reply:
        """Send a result. The service accepts it from an earlier session and under a revoked token too."""
        return await self._call("PUT", f"/leases/{lease_id}/results/{result_id}", result)

    async def authorize(self, request: dict[str, Any]) -> Reply:
        """Request the authorization from the simulated acquirer, under the payment's id."""
        return await self._send("POST", "/virtual/v1/acquirer/payments", request, CALL_SECONDS_MAX)

    async def authorize_by_service(self, lease_id: str, request: dict[str, Any]) -> Reply:
        """Have the service request the authorization, as terminals of kind `service` do."""
        return await self._in_session("POST", f"/leases/{lease_id}/authorize", request, AUTHORIZE_SECONDS_MAX)

    def is_before(self, until: str) -> bool:
        """Whether the instant lies in the future by the service's clock, as estimated from its answers."""
        end = _instant(until)
        if self._service_time is None or end is None:
            return False
        service_time, sent = self._service_time
        return service_time + timedelta(seconds=time.monotonic() - sent) < end

    async def _in_session(
        self, method: str, path: str, body: dict[str, Any] | None, seconds_max: float = CALL_SECONDS_MAX
    ) -> Reply:
        reply = await self._call(method, path, body, seconds_max)
        if reply.status == 401:
            raise SessionEnded("the device token was refused")
        if reply.status == 409 and reply.code == "stale_session":
            # Each start draws its own boot id, so a newer one belongs to another process.
            raise SessionEnded("the terminal was started in another process")
        return reply

    async def _call(
        self, method: str, path: str, body: dict[str, Any] | None, seconds_max: float = CALL_SECONDS_MAX
    ) -> Reply:
        sent = time.monotonic()
        content = None if body is None else {"boot_id": self.boot_id, **body}
        reply = await self._send(method, f"/device/v1{path}", content, seconds_max)
        service_time = _instant(reply.body.get("time"))
        if service_time is not None:
            # The latest value counts: in development the clock may be frozen or moved. It is dated to when the request
            # was sent, so that the estimate is never behind the service's clock.
            self._service_time = service_time, sent
        return reply

    async def _send(self, method: str, path: str, body: dict[str, Any] | None, seconds_max: float) -> Reply:
        send = partial(self._exchange, method, path, body, seconds_max)
        try:
            reply = await (send() if self.network is None else self.network.exchange(send))
        except MessageLost as error:
            raise ServiceUnavailable(str(error)) from None
        if reply.status in (408, 429) or reply.status >= 500:
            raise ServiceUnavailable(f"{method} was answered with {reply.status} {reply.code}")
        return reply

    async def _exchange(self, method: str, path: str, body: dict[str, Any] | None, seconds_max: float) -> Reply:
        from aiohttp import ClientError, ClientTimeout

        content = None if body is None else msgspec.json.encode(body)
        headers = {"Authorization": f"Bearer {self._token.reveal()}", "Content-Type": "application/json"}
        try:
            async with self._http.request(
                method,
                self._base_url + path,
                data=content,
                headers=headers,
                timeout=ClientTimeout(total=seconds_max),
                allow_redirects=False,
            ) as answer:
                raw = await answer.read()
                return Reply(answer.status, raw, _object_of(raw))
        except (TimeoutError, ClientError, OSError) as error:
            raise ServiceUnavailable(f"{type(error).__name__}: {error}") from None


def _successful(call: str, reply: Reply) -> Reply:
    if reply.status != 200:
        raise ServiceUnavailable(f"{call} was answered with {reply.status} {reply.code}")
    return reply


def _lease_state(entry: Entry) -> dict[str, Any]:
    state: dict[str, Any] = {"lease_id": entry.lease_id, "last_step": entry.step, "sent": entry.sent}
    if entry.result is not None:
        state["result"] = entry.result
    return state


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
