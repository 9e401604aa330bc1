"""Creating orders in development: the log names the order of a response, and the webhook fault `before_answer`.

With that fault, the response that creates an order waits for its notification. The order is committed before. It waits
`HOLD_SECONDS_MAX` at most, and for nothing while no subscription has the fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

import msgspec
import structlog

from paydesk.platform.http.asgi import IN_ONE_PIECE, ASGIApp, Message, Receive, Scope, Send
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Locked, Unavailable
from paydesk_dev.faults import store as fault_store

HOLD_SECONDS_MAX = 5.0
POLL_INTERVAL_SECONDS = 0.25
PATH = "/v1/orders"

log = structlog.get_logger("request")


class _Created(msgspec.Struct):
    """The part of the response that names the order and its seller."""

    id: str
    user_id: str


class HeldAnswers:
    """Passes requests to an application, and holds the responses that create orders."""

    def __init__(self, app: ASGIApp, shared: Shared) -> None:
        self._app, self._database = app, shared.database
        self._may_hold, self._changes = True, 0
        self._signals = shared.database.signals
        self._signals.listen(fault_store.TOPIC_OF_SIGNALS, self._fault_changed)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass a request on."""
        if scope["path"] != PATH or scope["method"] != "POST":
            return self._app(scope, receive, send)
        start: Message = {}

        async def held(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start["status"] == 201:
                # The order exists: whatever happens now, the response is sent.
                with suppress(Unavailable, Locked, TimeoutError):
                    async with asyncio.timeout(HOLD_SECONDS_MAX):
                        await self._hold(message["body"], dict(start["headers"])[b"x-request-id"].decode())
            await send(start)
            await send(message)

        extensions = {name: one for name, one in scope.get("extensions", {}).items() if name != IN_ONE_PIECE}
        return self._app({**scope, "extensions": extensions}, receive, held)

    async def _hold(self, body: bytes, request_id: str) -> None:
        """Log the order of a response, and wait until it may be sent."""
        order = msgspec.json.decode(body, type=_Created)
        log.info("order_response", order_id=order.id, request_id=request_id)
        if not self._may_hold:
            return
        changes = self._changes
        if not await self._database.read(fault_store.any_before_answer):
            self._may_hold = self._changes != changes
            return
        while not self._signals.stopping:
            with self._signals.subscribe("deliveries", fault_store.TOPIC_OF_SIGNALS, "stop") as waiter:
                if await self._database.read(lambda tx: fault_store.may_answer(tx, int(order.user_id), order.id)):
                    return
                await waiter.wait(POLL_INTERVAL_SECONDS)

    def _fault_changed(self, _topic: str) -> None:
        self._changes += 1
        self._may_hold = True
