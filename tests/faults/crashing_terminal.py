"""The client of a virtual terminal that dies at a step of the protocol, and that has the service die at a request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import aiohttp

from faults.virtual_terminals import DoorClient
from paydesk.engine.device.schemas import Message
from paydesk_dev.http_client import Reply
from paydesk_dev.virtual.journal import AUTHORIZING, Journal

TerminalStep = Literal[
    "none",
    "offered",
    "ack sent",
    "acknowledged",
    "authorizing journalled",
    "authorizing sent",
    "permit journalled",
    "acquirer asked",
    "acquirer answered",
    "result journalled",
    "result sent",
]
"""The last that the terminal did. `sent`: the service has answered, and the answer is lost."""


@dataclass
class Crashes:
    """What is still to die: the terminal at a step, and the service at a request such as `permit before commit`."""

    terminal_step: str
    service_step: str
    died: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the terminal has died. From then on it does nothing, and the test stops it."""
    polls: int = 0
    """How often terminals have polled: what a restarted one says first is answered then."""

    async def at(self, step: TerminalStep) -> None:
        """Die if this is the step."""
        if step == self.terminal_step:
            await self._die()

    def headers_of(self, request: str) -> dict[str, str]:
        """Return the headers that kill the service at this request, the first time."""
        chosen, _, when = self.service_step.partition(" ")
        if request != chosen:
            return {}
        self.service_step = "none"
        return {"X-Crash-At": when.replace(" ", "_")}

    async def _die(self) -> NoReturn:
        self.terminal_step = "none"
        self.died.set()
        while True:
            await asyncio.Event().wait()


class CrashingClient(DoorClient):
    """A client of the service and of the acquirer that dies when it is to."""

    def __init__(
        self, http: aiohttp.ClientSession, base_url: str, journal: Journal, seller_id: int, crashes: Crashes
    ) -> None:
        killing: Any = _KillingHttp(http, crashes)
        super().__init__(killing, base_url, journal, seller_id)
        self._crashes = crashes
        self._requests = set[asyncio.Task[Reply]]()

    async def next(self, wait_seconds: int) -> Message | None:
        """Poll, and die once an order is offered."""
        self._crashes.polls += 1
        message = await super().next(wait_seconds)
        if message is not None and message.type == "order":
            await self._crashes.at("offered")
        return message

    async def acknowledge(self, lease_id: str) -> Reply:
        """Acknowledge, and die before the answer is journalled."""
        reply = await super().acknowledge(lease_id)
        await self._crashes.at("ack sent")
        return reply

    async def progress(self, lease_id: str, seq: int, step: str) -> Reply:
        """Report a step, and die before or after it."""
        await self._crashes.at("authorizing journalled" if step == AUTHORIZING else "acknowledged")
        reply = await super().progress(lease_id, seq, step)
        if step == AUTHORIZING:
            await self._crashes.at("authorizing sent")
        return reply

    async def authorize(self, request: dict[str, Any]) -> Reply:
        """Call the acquirer, and die before, during or after the call."""
        await self._crashes.at("permit journalled")
        # What was sent arrives, whether or not the terminal lives to see it.
        calling = asyncio.create_task(super().authorize(request))
        self._requests.add(calling)
        await self._crashes.at("acquirer asked")
        reply = await calling
        await self._crashes.at("acquirer answered")
        return reply

    async def report(self, lease_id: str, result_id: str, result: dict[str, Any]) -> Reply:
        """Report the result, and die before or after it."""
        await self._crashes.at("result journalled")
        reply = await super().report(lease_id, result_id, result)
        await self._crashes.at("result sent")
        return reply


class _KillingHttp:
    """A session whose requests may carry the header that kills the service."""

    def __init__(self, http: aiohttp.ClientSession, crashes: Crashes) -> None:
        self._http, self._crashes = http, crashes

    def request(self, method: str, url: str, *, headers: dict[str, str], data: bytes | None, **options: Any) -> Any:
        """Send a request."""
        killing = self._crashes.headers_of(_name(url, data or b""))
        return self._http.request(method, url, headers={**headers, **killing}, data=data, **options)


def _name(url: str, data: bytes) -> str:
    if url.endswith("/ack"):
        return "ack"
    if url.endswith("/progress") and AUTHORIZING.encode() in data:
        return "permit"
    return "result" if "/results/" in url else ""
