"""Creating orders in development: the log names the order of a response, and the webhook fault `before_answer`.

With that fault, the response that creates an order waits for its notification. The order is committed before. It waits
`HOLD_SECONDS_MAX` at most, and for nothing while no subscription has the fault.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from paydesk.platform.http.endpoint import Endpoint
from paydesk.platform.http.reply import Reply
from paydesk.platform.operation import Call, Operation
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Locked, Unavailable
from paydesk_dev.faults import store as fault_store

HOLD_SECONDS_MAX = 5.0
POLL_INTERVAL_SECONDS = 0.25

log = structlog.get_logger("request")


class _Created(msgspec.Struct):
    """The part of the response that names the order."""

    id: str


class HoldingEndpoint(Endpoint):
    """Serves the operation that creates orders in development."""

    def __init__(self, operation: Operation, shared: Shared) -> None:
        super().__init__(operation, shared)
        self._may_hold, self._changes = True, 0
        self._signals = shared.database.signals
        self._signals.listen(fault_store.TOPIC_OF_SIGNALS, self._fault_changed)

    async def _run_with_key(self, call: Call, key_value: str, document: Any) -> Reply:
        reply = await super()._run_with_key(call, key_value, document)
        if reply.status == self.operation.status:
            # The order exists: whatever happens now, the response is sent.
            order_id = msgspec.json.decode(reply.body, type=_Created).id
            log.info("order_response", order_id=order_id, request_id=call.request_id)
            with suppress(Unavailable, Locked, TimeoutError):
                async with asyncio.timeout(HOLD_SECONDS_MAX):
                    await self._hold(call.caller.seller_id, order_id)
        return reply

    async def _hold(self, seller_id: int, order_id: str) -> None:
        if not self._may_hold:
            return
        database = self.shared.database
        changes = self._changes
        if not await database.read(fault_store.any_before_answer):
            self._may_hold = self._changes != changes
            return
        while not self._signals.stopping:
            with self._signals.subscribe("deliveries", fault_store.TOPIC_OF_SIGNALS, "stop") as waiter:
                if await database.read(lambda tx: fault_store.may_answer(tx, seller_id, order_id)):
                    return
                await waiter.wait(POLL_INTERVAL_SECONDS)

    def _fault_changed(self, _topic: str) -> None:
        self._changes += 1
        self._may_hold = True
