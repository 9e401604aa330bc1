"""HTTP client of the terminal protocol (`/device/v1`): its calls, its messages, and the pace of its attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from paydesk import __version__
from paydesk.core import runtime
from paydesk.core.secrets import Secret
from paydesk.engine.device.schemas import Message
from paydesk_dev.http_client import Client, Reply
from paydesk_dev.virtual.journal import Entry
from paydesk_dev.virtual.terminal.network import DisturbedNetwork, Link
from paydesk_dev.virtual.terminal.panel import Panel

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
    between_tries: Callable[[float], Awaitable[object]] | None = None
    """Waits before the next try of a call; by default as `sleep` does."""
    authorizing_seconds: float = 0.6
    """How long a person sees at least that the payment is being authorized."""
    reboot_seconds: float = 6
    printing_seconds: float = 0.9
    """How long the content of a print action is printed."""

    def quick(self) -> Pace:
        """Return the pace of a terminal that only tests play."""
        return replace(self, authorizing_seconds=0, reboot_seconds=0.3, printing_seconds=0.1)

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after that many earlier failures in a row; the last value repeats."""
        return self.backoff_seconds[min(failures, len(self.backoff_seconds) - 1)]

    async def back_off(self, failures: int) -> None:
        """Wait for that pause."""
        await (self.between_tries or self.sleep)(self.pause(failures))

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
    seller_name: str = ""
    leases: list[Verdict] = []


class DeviceClient:
    """The client of one start of a terminal, with its own boot id.

    Every method raises `ServiceUnavailable`; those that need the session raise `SessionEnded` too.
    """

    def __init__(self, http: aiohttp.ClientSession, base_url: str, device_token: Secret) -> None:
        self._client = Client(http, base_url.rstrip("/"), device_token)
        self.boot_id = str(uuid4())
        self.link = Link()
        self.messages: Panel | None = None
        """Where its messages are listed, if anywhere."""
        self.network: DisturbedNetwork | None = None
        """What disturbs its requests, if anything on this side of them does."""
        self._service_time: tuple[datetime, float, float] | None = None
        """The service's time in an answer, and when that was requested and received."""

    async def hello(self, entries: Iterable[Entry]) -> Welcome:
        """Start or restart the session; return the service's verdict on each lease in the journal."""
        journal = list[dict[str, Any]]()
        for entry in entries:
            result = {} if entry.result is None else {"result": entry.result}
            journal.append({"lease_id": entry.lease_id, "last_step": entry.step, "sent": entry.sent, **result})
        self._sends("hello")
        reply = await self._in_session("POST", "/hello", {"app_version": __version__, "journal": journal})
        try:
            welcome = msgspec.json.decode(_successful("hello", reply).raw, type=Welcome)
        except msgspec.DecodeError as error:
            raise ServiceUnavailable(f"the answer to hello is invalid: {error}") from None
        self._receives(f"welcome, mode {welcome.operating_mode}")
        return welcome

    async def next(self, wait_seconds: int) -> Message | None:
        """Wait for the next message. Return None if none came in time, or one of an unknown type."""
        path = f"/next?boot_id={self.boot_id}&wait={wait_seconds}"
        reply = await self._in_session("GET", path, None, wait_seconds + CALL_SECONDS_MAX)
        if reply.status == 204:
            return None
        try:
            message = msgspec.json.decode(_successful("next", reply).raw, type=Message)
        except msgspec.DecodeError:
            return None
        self._receives(f"mode {message.operating_mode}" if message.type == "mode" else message.type)
        return message

    async def acknowledge(self, lease_id: str) -> Reply:
        """Acknowledge that the order has arrived and is displayed."""
        self._sends("ack")
        try:
            return self._answered(await self._in_session("POST", f"/leases/{lease_id}/ack", {}))
        except ServiceUnavailable:
            self._receives("no answer")
            raise

    async def progress(self, lease_id: str, seq: int, step: str) -> Reply:
        """Report a step of the payment; `authorizing` requests the authorization permit."""
        self._sends(f"progress {step}")
        reply = await self._in_session("POST", f"/leases/{lease_id}/progress", {"seq": seq, "step": step})
        permit = f"go: true, until {str(reply.body.get('until', ''))[14:19]}"
        return self._answered(reply, permit if reply.body.get("go") is True else "")

    async def order_of(self, lease_id: str) -> dict[str, Any]:
        """Return the lease's order: its status and detail; empty if it was taken from the terminal.

        It repeats the terminal's first step, which changes nothing and is answered with the order.
        """
        reply = await self._in_session("POST", f"/leases/{lease_id}/progress", {"seq": 0, "step": "card_requested"})
        order = reply.body.get("order")
        return order if isinstance(order, dict) else {}

    async def answer_cancel(self, lease_id: str, *, done: bool) -> Reply:
        """Report whether the terminal released the order."""
        self._sends(f"cancel-result done: {str(done).lower()}")
        return await self._in_session("POST", f"/leases/{lease_id}/cancel-result", {"done": done})

    async def report_print(self, action_id: str, outcome: str) -> Reply:
        """Report whether the print action was `printed` or has `failed`."""
        self._sends(f"print {outcome}")
        return await self._in_session("POST", f"/actions/{action_id}/result", {"outcome": outcome})

    async def report(self, lease_id: str, result_id: str, result: dict[str, Any]) -> Reply:
        """Send a result. The service accepts it from an earlier session and under a revoked token too."""
        self._sends(f"result {result.get('outcome', '')}")
        reply = await self._call("PUT", f"/leases/{lease_id}/results/{result_id}", result)
        order = reply.body.get("order")
        return self._answered(reply, f"order {order.get('status', '')}" if isinstance(order, dict) else "")

    async def authorize(self, request: dict[str, Any]) -> Reply:
        """Request the authorization from the simulated acquirer, under the payment's id."""
        return await self._send("POST", "/virtual/v1/acquirer/payments", request, CALL_SECONDS_MAX)

    async def reverse(self, payment_id: str) -> Reply:
        """Reverse the payment at the simulated acquirer."""
        body = {"payment_id": payment_id}
        return await self._send("POST", "/virtual/v1/acquirer/reversals", body, CALL_SECONDS_MAX)

    async def authorize_by_service(self, lease_id: str, request: dict[str, Any]) -> Reply:
        """Have the service request the authorization, as terminals of kind `service` do."""
        self._sends("authorize")
        return await self._in_session("POST", f"/leases/{lease_id}/authorize", request, AUTHORIZE_SECONDS_MAX)

    def now(self) -> datetime | None:
        """Return the time by the service's clock, as estimated from its answers; None before the first."""
        if self._service_time is None:
            return None
        service_time, _, received = self._service_time
        return service_time + timedelta(seconds=runtime.monotonic() - received)

    def is_before(self, until: str) -> bool:
        """Whether the instant lies in the future by the service's clock, which this estimate is never behind."""
        end = _instant(until)
        if self._service_time is None or end is None:
            return False
        service_time, sent, _ = self._service_time
        return service_time + timedelta(seconds=runtime.monotonic() - sent) < end

    def local_ms(self, instant: str) -> int | None:
        """Return the instant by the machine's clock in milliseconds, None if it or the service's time is unknown."""
        now, end = self.now(), _instant(instant)
        return (
            None if now is None or end is None else int((runtime.wall_ns() / 1e9 + (end - now).total_seconds()) * 1000)
        )

    def _sends(self, text: str) -> None:
        """List a message that is sent, if the network carries it."""
        if self.messages is not None and self.link.is_up:
            self.messages.exchanged(text, sent=True)

    def _receives(self, text: str) -> None:
        if self.messages is not None:
            self.messages.exchanged(text, sent=False)

    def _answered(self, reply: Reply, text: str = "") -> Reply:
        """List an answer that is an error or has such a text, and return it."""
        if text:
            self._receives(text)
        if reply.status >= 400:
            self._receives(f"{reply.status} {reply.code}")
        return reply

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
        sent = runtime.monotonic()
        content = None if body is None else {"boot_id": self.boot_id, **body}
        reply = await self._send(method, f"/device/v1{path}", content, seconds_max)
        service_time = _instant(reply.body.get("time"))
        if service_time is not None:
            # The latest value counts: in development the clock may be frozen or moved. It is dated to when the request
            # was sent, so that the estimate is never behind the service's clock.
            self._service_time = service_time, sent, runtime.monotonic()
        return reply

    async def _send(self, method: str, path: str, body: dict[str, Any] | None, seconds_max: float) -> Reply:
        send = partial(self.link.carry, partial(self._client.send, method, path, body, seconds_max=seconds_max))
        try:
            reply = await (send() if self.network is None else self.network.exchange(send))
        except OSError as error:
            raise ServiceUnavailable(str(error) or type(error).__name__) from None
        if reply.status in (408, 429) or reply.status >= 500:
            raise ServiceUnavailable(f"{method} was answered with {reply.status} {reply.code}")
        return reply


def _successful(call: str, reply: Reply) -> Reply:
    if reply.status != 200:
        raise ServiceUnavailable(f"{call} was answered with {reply.status} {reply.code}")
    return reply


def _instant(text: object) -> datetime | None:
    try:
        instant = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return instant if instant is not None and instant.tzinfo is not None else None
