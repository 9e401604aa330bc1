"""`GET /device/v1/next`: wait until there is something to tell the terminal, without ever asking in a loop."""

from __future__ import annotations

import asyncio
import re

from paydesk.errors import PROPERTY_VALUE
from paydesk.operation import Answer, Call, Handled
from paydesk.orders import store as orders
from paydesk.storage.database import Transaction
from paydesk.terminals import leases, store
from paydesk.terminals.errors import STALE_SESSION
from paydesk.terminals.gateway import Gateway, View
from paydesk.terminals.schemas import UUID_PATTERN
from paydesk.terminals.sessions import refuse_revoked

WAIT_SECONDS_MAX = 55
_UUID = re.compile(UUID_PATTERN)


async def next_message(call: Call) -> Handled:
    """The next message for the terminal: 200 with it, or 204 when none came in time or a newer poll began."""
    refuse_revoked(call)
    boot_id, wait_seconds = _boot_id(call), _wait_seconds(call)
    terminal_id, signals = call.caller.terminal_id, call.database.signals
    gateway: Gateway = call.state["gateway"]
    # A poll that has no session of its own must not end the one that has.
    await call.database.read(lambda tx: _session(tx, call, boot_id))
    poll, polls = gateway.arrive(terminal_id), f"poll:{terminal_id}"
    signals.wake((polls,))
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_seconds
    while True:
        with signals.subscribe(f"terminal:{terminal_id}", polls, "stop") as waiter:
            session, view = await call.database.read(lambda tx: _look(tx, call, boot_id))
            if not gateway.is_newest(terminal_id, poll):
                return Answer(204)
            message, again_seconds = gateway.next(
                terminal_id, session, view, call.clock.now_ms(), call.settings.offer_again_seconds
            )
            if message is not None:
                return Answer(200, message)
            left = deadline - loop.time()
            if left <= 0 or signals.stopping:
                return Answer(204)
            await waiter.wait(left if again_seconds is None else min(left, again_seconds))


async def _session(tx: Transaction, call: Call, boot_id: str) -> int:
    """The number of this start's session. Raises `stale_session`."""
    newest, own = await leases.sessions_of(tx, call.caller.seller_id, call.caller.terminal_id, boot_id)
    if own is None or own != newest:
        raise STALE_SESSION.because("no hello" if own is None else f"session {own}, the newest is {newest}")
    return own


async def _look(tx: Transaction, call: Call, boot_id: str) -> tuple[int, View]:
    """This start's session, and what there is to tell. Raises `stale_session`."""
    seller_id, terminal_id = call.caller.seller_id, call.caller.terminal_id
    session = await _session(tx, call, boot_id)
    terminal = await store.find(tx, seller_id, terminal_id)
    assert terminal is not None, "a device token belongs to a terminal"
    order = await orders.live_on_terminal(tx, seller_id, terminal_id)
    # After the order: a lease is as new as the order that it belongs to, or newer.
    lease = await leases.latest(tx, seller_id, terminal_id)
    return session, View(terminal.operating_mode, order, lease)


def _boot_id(call: Call) -> str:
    boot_id = call.query.get("boot_id", "")
    if not _UUID.fullmatch(boot_id):
        raise PROPERTY_VALUE.because("boot_id", "'boot_id' - must be the UUID of a hello")
    return boot_id


def _wait_seconds(call: Call) -> int:
    text = call.query.get("wait", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and int(text) <= WAIT_SECONDS_MAX):
        raise PROPERTY_VALUE.because("wait", f"'wait' - must be a number of seconds from 0 to {WAIT_SECONDS_MAX}")
    return int(text)
