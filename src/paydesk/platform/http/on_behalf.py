"""Idempotent operations that an operator calls on behalf of an order's seller. The key belongs to the seller."""

from __future__ import annotations

from typing import Any

from paydesk.platform.http.endpoint import Endpoint
from paydesk.platform.http.reply import Reply
from paydesk.platform.operation import Call


class OnBehalfEndpoint(Endpoint):
    """Serves an operation that has `on_behalf`."""

    async def _run_with_key(self, call: Call, key_value: str, document: Any) -> Reply:
        assert self.operation.on_behalf is not None, "it serves only operations that have it"
        call.caller = await self.operation.on_behalf(call)
        return await super()._run_with_key(call, key_value, document)
