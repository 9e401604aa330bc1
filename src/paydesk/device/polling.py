"""`GET /device/v1/next`: wait until there is something to tell the terminal, without ever asking in a loop."""

from __future__ import annotations

import asyncio
import re
from functools import partial

from paydesk.core.errors import PROPERTY_VALUE, UNAUTHORIZED
from paydesk.device import lease_store, poll_query
from paydesk.device.gateway import Gateway, Poll
from paydesk.device.poll_query import View
from paydesk.device.schemas import UUID_PATTERN
from paydesk.device.sessions import refuse_revoked
from paydesk.operation import Answer, Call, Handled, Query
from paydesk.storage.database import Transaction

WAIT = Query("wait", {"type": "integer", "minimum": 0, "maximum": 55, "default": 0}, "For how many seconds to wait.")
_UUID = re.compile(UUID_PATTERN)


async def next_message(call: Call) -> Handled:
    """The next message for the terminal: 200 with it, or 204 when none came in time or a newer poll began."""
    refuse_revoked(call)
    boot_id, wait_seconds = _boot_id(call), WAIT.number(call.query) or 0
    gateway: Gateway = call.state["gateway"]
    poll = gateway.arrived(call.caller.terminal_id)
    try:
        return await _wait(call, gateway, poll, boot_id, wait_seconds)
    finally:
        poll.waiter = None


async def _wait(call: Call, gateway: Gateway, poll: Poll, boot_id: str, wait_seconds: int) -> Answer:
    signals, loop = call.database.signals, asyncio.get_running_loop()
    topics = f"terminal:{poll.terminal_id}", f"device:{poll.terminal_id}", "stop"
    deadline = loop.time() + wait_seconds
    has_waited = False
    while True:
        with signals.subscribe(*topics) as waiter:
            poll.waiter = waiter
            # A poll that has no session of its own must not end the one that has.
            look = partial(_look, call=call, boot_id=boot_id, has_waited=has_waited)
            session, view = await call.database.read(look)
            has_waited = True
            if gateway.begin(poll):
                signals.publish((f"moved:{poll.terminal_id}",))
            if poll.over or (call.disconnected is not None and call.disconnected()):
                # Who has gone is told nothing, and so the next poll is told it at once.
                return Answer(204)
            message, again_seconds = gateway.next(
                poll.terminal_id, session, view, call.clock.now_ms(), call.settings.offer_again_seconds
            )
            if message is not None:
                return Answer(200, message)
            left = deadline - loop.time()
            if left <= 0 or signals.stopping:
                return Answer(204)
            await waiter.wait(left if again_seconds is None else min(left, again_seconds))


async def _look(tx: Transaction, call: Call, boot_id: str, *, has_waited: bool) -> tuple[int, View]:
    """Return this start's session and the message to send. Raises `unauthorized` and `stale_session`.

    A poll that `has_waited` was open when the terminal was started again.
    """
    caller = call.caller
    look = await poll_query.look(tx, caller.seller_id, caller.terminal_id, caller.token_digest, boot_id)
    if look.revoked_ms is not None:
        raise UNAUTHORIZED.with_reason("revoked device token")
    if look.own is None or look.own != look.newest:
        raise lease_store.stale(call, look.own, look.newest, is_late=not has_waited)
    return look.own, look.view


def _boot_id(call: Call) -> str:
    boot_id = call.query.get("boot_id", "")
    if not _UUID.fullmatch(boot_id):
        raise PROPERTY_VALUE.with_reason("boot_id", "'boot_id' - must be the UUID of a hello")
    return boot_id
