"""The kit as the operator: it approves a terminal that asks to be paired."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from paydesk_dev.conformance.terminals.actions import Forward, refuse
from paydesk_dev.conformance.terminals.exchanges import Exchange
from paydesk_dev.conformance.terminals.kit import Kit
from paydesk_dev.http_client import Reply


@contextmanager
def approving(kit: Kit) -> Iterator[None]:
    """Answer the first request for a token with `slow_down`; approve the pairing of each later one before it."""
    approved: set[str] = set()

    async def approve(exchange: Exchange, forward: Forward) -> Reply:
        # The user code that came with the device code of the request.
        device_code = exchange.body.get("device_code") if isinstance(exchange.body, dict) else None
        begun = (one.answer for one in kit.log.find("pairing") if device_code is not None)
        user_code = next((str(one.get("user_code", "")) for one in begun if one.get("device_code") == device_code), "")
        if user_code and user_code not in approved:
            approved.add(user_code)
            refused = await kit.shop.pair(user_code)
            kit.say(f"The pairing {user_code} was refused: {refused}." if refused else f"Paired by {user_code}.")
        return await forward()

    slow_down = refuse(400, code="slow_down")
    with kit.wire.on("pairing-token", do=slow_down, times=1), kit.wire.on("pairing-token", do=approve):
        yield
