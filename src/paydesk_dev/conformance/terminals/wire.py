"""The wire between the terminal under test and the service: a proxy that records, and acts on requests for a case."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from paydesk.core import runtime
from paydesk.core.secrets import Secret
from paydesk_dev.conformance.terminals.actions import Action, Forward, Gate, error
from paydesk_dev.conformance.terminals.exchanges import CHARGE, Exchange, Kind, Log
from paydesk_dev.http_client import Client, Reply

if TYPE_CHECKING:
    from aiohttp import web

BODY_BYTES_MAX = 64 * 1024
ANSWER_SECONDS_MAX = 300.0
PREFIXES = ("/device/v1/", CHARGE)
ANSWERED_HEADERS = ("retry-after", "www-authenticate", "x-request-id")
_DROPPED_HEADERS = frozenset({"host", "content-length", "connection", "transfer-encoding", "accept-encoding"})


@dataclass(eq=False, slots=True)
class _Rule:
    kinds: tuple[Kind, ...]
    action: Action
    boot_id: str
    times: int

    def matches(self, exchange: Exchange) -> bool:
        return (
            self.times > 0
            and (not self.kinds or exchange.kind in self.kinds)
            and self.boot_id in ("", exchange.boot_id)
        )


class Wire:
    """The proxy to the service."""

    def __init__(self, log: Log, service: Client) -> None:
        self._log, self._service = log, service
        self._rules: list[_Rule] = []
        self._injected: deque[Reply] = deque()
        self._injection = asyncio.Event()
        self.device_token = Secret("")
        """The token of the terminal's last hello."""

    @contextmanager
    def on(self, *kinds: Kind, do: Action, boot_id: str = "", times: int = 1_000_000) -> Iterator[None]:
        """Put an action on requests of these kinds (without any: on all), of that start of the terminal if given."""
        rule = _Rule(kinds, do, boot_id, times)
        self._rules.append(rule)
        try:
            yield
        finally:
            self._rules.remove(rule)
            if isinstance(do, Gate):
                do.drop()

    @contextmanager
    def hold(self, *kinds: Kind, served: bool = False, message: str = "", boot_id: str = "") -> Iterator[Gate]:
        """Hold requests or answers as `Gate` does. What is still held at the end is dropped."""
        gate = Gate(served=served, message=message)
        with self.on(*kinds, do=gate, boot_id=boot_id):
            yield gate

    def inject(self, message: Mapping[str, Any]) -> None:
        """Answer the terminal's open or next poll with this message; with an empty one by 204."""
        self._injected.append(Reply(200, msgspec.json.encode(message)) if message else Reply(204))
        self._injection.set()

    def forget_injected(self) -> None:
        """Drop injected messages that were not delivered."""
        self._injected.clear()
        self._injection.clear()

    @asynccontextmanager
    async def listening(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve the terminal on this socket."""
        from aiohttp import web

        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # A request whose client has gone is not forwarded any more.
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            yield
        finally:
            for rule in self._rules:
                if isinstance(rule.action, Gate):
                    rule.action.drop()
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        if not request.path.startswith(PREFIXES):
            return _response(error(404, "not_found", "The kit has only the paths that a terminal calls."))
        if self._log.is_full:
            return _response(error(503, "service_unavailable", "The kit's log is full. Start the kit again."))
        try:
            raw = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _response(error(413, "payload_too_large", f"A body has at most {BODY_BYTES_MAX} bytes."))
        try:
            body = msgspec.json.decode(raw) if raw else None
        except msgspec.DecodeError:
            body = raw.decode("utf-8", "replace")
        exchange = self._log.begin(request.method, request.path, dict(request.query), body, len(raw))
        if exchange.kind == "hello":
            self.device_token = Secret(request.headers.get("Authorization", "").removeprefix("Bearer "))
        forward = partial(self._forward, exchange, request, raw)
        reach = partial(self._poll, forward) if exchange.kind == "poll" else forward
        rule = next((rule for rule in self._rules if rule.matches(exchange)), None)
        if rule is not None:
            rule.times -= 1
        answer = await (reach() if rule is None else rule.action(exchange, reach))
        if answer is None:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)  # Not received: the connection is closed.
        exchange.status, exchange.answer, exchange.answered = answer.status, answer.body, runtime.monotonic()
        self._log.notify()
        return _response(answer)

    async def _poll(self, forward: Forward) -> Reply:
        """Return the service's answer to a poll or an injected message, whichever is first."""
        forwarding = asyncio.ensure_future(forward())
        injection = asyncio.ensure_future(self._injection.wait())
        try:
            await asyncio.wait((forwarding, injection), return_when=asyncio.FIRST_COMPLETED)
            if forwarding.done() or not self._injected:
                return await forwarding
            message = self._injected.popleft()
            if not self._injected:
                self._injection.clear()
            return message
        finally:
            for task in (forwarding, injection):
                task.cancel()
            await asyncio.gather(forwarding, injection, return_exceptions=True)

    async def _forward(self, exchange: Exchange, request: web.Request, raw: bytes) -> Reply:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _DROPPED_HEADERS}
        try:
            reply = await self._service.send(
                request.method, request.path_qs, raw or None, headers, seconds_max=ANSWER_SECONDS_MAX
            )
        except OSError:
            return error(503, "service_unavailable", "The service behind the kit does not answer.")
        exchange.served = reply.status
        self._log.notify()
        return replace(reply, headers={name: reply.headers[name] for name in ANSWERED_HEADERS if name in reply.headers})


def _response(answer: Reply) -> web.Response:
    from aiohttp import web

    if not answer.raw:
        return web.Response(status=answer.status, headers=answer.headers)
    return web.Response(status=answer.status, body=answer.raw, headers=answer.headers, content_type="application/json")
