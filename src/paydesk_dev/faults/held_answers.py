"""Creating orders in development: the log names the order of a response, and the webhook fault `before_answer`.

With that fault, the response that creates an order waits for its notification. The order is committed before. It waits
`HOLD_SECONDS_MAX` at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

import msgspec
import structlog

from paydesk.engine.webhooks.schedule import PENDING
from paydesk.platform.http.asgi import IN_ONE_PIECE, ASGIApp, Message, Receive, Scope, Send
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Locked, Row, Unavailable
from paydesk_dev.faults.active import Faults
from paydesk_dev.faults.webhooks import facts_of

HOLD_SECONDS_MAX = 5.0
POLL_INTERVAL_SECONDS = 0.25
PATH, ACTION = "/v1/orders", "order.created"

# The last column: whether the first attempt is not over.
CREATED = f"""
SELECT d.delivery_id, d.subscription_id, s.application_id,
       CASE WHEN d.{PENDING} AND (d.attempts = 0 OR d.claimed_until_ms > 0) THEN 1 ELSE 0 END
  FROM deliveries d JOIN subscriptions s ON s.subscription_id = d.subscription_id
 WHERE d.seller_id = $1 AND d.order_id = $2 AND d.version = 1 AND s.paused_ms IS NULL
"""

log = structlog.get_logger("request")


class _Created(msgspec.Struct):
    """The part of the response that names the order and its seller."""

    id: str
    user_id: str
    live_mode: bool


class HeldAnswers:
    """Passes requests to an application, and holds the responses that create orders."""

    def __init__(self, app: ASGIApp, shared: Shared) -> None:
        self._app, self._shared, self._faults = app, shared, shared.objects[Faults]
        self._signals = shared.database.signals

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
        if not self._faults.on_webhooks:
            return
        waits = {
            delivery_id
            for delivery_id, *names, _ in await self._first(order)
            if self._fires(order, delivery_id, *names)
        }
        while waits and not self._signals.stopping:
            with self._signals.subscribe("deliveries", "stop") as waiter:
                if not any(is_open and delivery_id in waits for delivery_id, *_, is_open in await self._first(order)):
                    return
                await waiter.wait(POLL_INTERVAL_SECONDS)

    async def _first(self, order: _Created) -> list[Row]:
        """Return the deliveries that say that the order was created."""
        return await self._shared.database.read(lambda tx: tx.all(CREATED, int(order.user_id), order.id))

    def _fires(self, order: _Created, delivery_id: str, subscription_id: str, application_id: int) -> bool:
        """Return whether a fault wants this delivery before the response, and note that."""
        request = facts_of(
            delivery_id,
            ACTION,
            application=str(application_id),
            seller=order.user_id,
            mode="live" if order.live_mode else "test",
            subscription=subscription_id,
            order=order.id,
        )
        now_ms = self._shared.clock.now_ms()
        taken = self._faults.take(request, ACTION, now_ms, lambda fault: fault.kind == "before_answer")
        if taken is not None:
            self._faults.note(*taken)
        return taken is not None
