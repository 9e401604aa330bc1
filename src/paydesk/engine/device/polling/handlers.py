"""`GET /device/v1/next`: the long poll that waits for the terminal's next message."""

from __future__ import annotations

import asyncio
from functools import partial

from paydesk.core.errors import PROPERTY_VALUE, UNAUTHORIZED
from paydesk.core.ids import UUID
from paydesk.engine.device import printing, store
from paydesk.engine.device.gateway import Gateway, Poll
from paydesk.engine.device.sessions import refuse_revoked, stale
from paydesk.engine.device.store import PollState
from paydesk.platform.operation import WAIT, Answer, Call, Handled
from paydesk.platform.storage.database import Transaction


async def next_message(call: Call) -> Handled:
    """Wait for the next message to the terminal: 200, or 204 if there is none in time or a newer poll begins."""
    refuse_revoked(call)
    boot_id, seconds = call.query.get("boot_id", ""), WAIT.number(call.query) or 0
    if not UUID.fullmatch(boot_id):
        raise PROPERTY_VALUE.with_reason("boot_id", "'boot_id' - must be the UUID of a hello")
    gateway = call.shared.objects[Gateway]
    poll = gateway.open(call.caller.seller_id, call.caller.terminal_id)
    poll.disconnected = call.disconnected
    try:
        return await _wait(call, gateway, poll, boot_id, seconds)
    finally:
        gateway.close(poll)


async def _wait(call: Call, gateway: Gateway, poll: Poll, boot_id: str, seconds: int) -> Answer:
    signals, loop = call.database.signals, asyncio.get_running_loop()
    topics = f"terminal:{poll.terminal_id}", f"device:{poll.terminal_id}", "stop"
    deadline = loop.time() + seconds
    has_waited = False
    while True:
        with signals.subscribe(*topics) as waiter:
            poll.waiter = waiter
            query = partial(_query, call=call, boot_id=boot_id, has_waited=has_waited)
            session, state = await call.database.read(query)
            has_waited = True
            # Only now: a poll without a valid session must not end the poll that has one.
            if gateway.begin(poll):
                signals.publish((f"moved:{poll.terminal_id}",))
            if poll.ended or (call.disconnected is not None and call.disconnected()):
                # A message to a closed connection would count as sent and delay the next one.
                return Answer(204)
            message, resend_seconds = gateway.next(
                poll.terminal_id, session, state, call.clock.now_ms(), call.settings.offer_again_seconds
            )
            if message is not None and message.type == "print":
                message = await printing.hand_out(call, message)
                if message is None:
                    continue
            if message is not None:
                return Answer(200, message)
            left = deadline - loop.time()
            if left <= 0 or signals.stopping:
                return Answer(204)
            pause = left if resend_seconds is None else min(left, resend_seconds)
            if not await waiter.wait(pause) and pause == left:
                # Nothing happened. The next poll begins with the same query, so that none is needed here.
                return Answer(204)


async def _query(tx: Transaction, call: Call, boot_id: str, *, has_waited: bool) -> tuple[int, PollState]:
    """Return the session of `boot_id` and the terminal's state. Raises `unauthorized` and `stale_session`.

    A poll that `has_waited` was already open when the terminal restarted.
    """
    caller = call.caller
    state = await store.poll(tx, caller.seller_id, caller.terminal_id, caller.token_digest, boot_id)
    if state is None or state.revoked_ms is not None:
        raise UNAUTHORIZED.with_reason("revoked device token")
    if state.own_session is None or state.own_session != state.newest_session:
        raise stale(call, state.own_session, state.newest_session, is_late=not has_waited)
    return state.own_session, state
