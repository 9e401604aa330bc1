"""Endpoints of development: the demo inbox, the demo callback, the clock. None of them exists in `paydesk serve`.

The demo needs no credentials, so the adapter lets this very machine alone call it.
"""

from __future__ import annotations

import time
from functools import partial

from paydesk.core.clock import MovableClock
from paydesk.core.durations import typed_seconds
from paydesk.core.errors import PROPERTY_VALUE
from paydesk.operation import Answer, Call, Handled
from paydesk.sandbox import callback, dev_clock, inbox, store
from paydesk.sandbox.schemas import ClockMove

CLOCK_MS_MAX = 4_102_444_800_000
"""The clock can't be moved beyond the year 2099."""


async def receive(call: Call) -> Handled:
    """Take a notification as an application would, and keep it with whether its signatures are right."""
    secrets = inbox.secrets_of(call.keys, await call.database.read(store.signers))
    valid = inbox.is_signed(secrets, call.headers, call.query.get("data.id", ""), call.body, time.time())
    entry = inbox.entry_of(call.headers, call.body, received_ms=call.now_ms, valid=valid)
    await call.database.write(partial(store.add_entry, entry=entry))
    return Answer(200, {})


async def show_inbox(call: Call) -> Handled:
    """What was received, newest last."""
    return Answer(200, {"data": [inbox.shown(entry) for entry in await store.entries(call.tx)]})


async def empty_inbox(call: Call) -> Handled:
    """Forget what was received."""
    await store.empty(call.tx)
    return Answer(204)


async def show_callback(call: Call) -> Handled:
    """Show the code."""
    return Answer(200, callback.page(call.query), callback.HEADERS, "text/html; charset=utf-8")


async def show_clock(call: Call) -> Handled:
    """What time it is."""
    return Answer(200, dev_clock.shown(_clock(call), time.time_ns() // 1_000_000))


async def move_clock(call: Call) -> Handled:
    """Freeze the clock, advance it, or let it run again."""
    clock, move = _clock(call), call.body
    assert isinstance(move, ClockMove)
    if move.freeze:
        await dev_clock.freeze(call.database, clock)
    elif move.resume:
        await dev_clock.resume(call.database, clock)
    else:
        by_ms = (typed_seconds(move.advance or "") or 0) * 1000
        if clock.now_ms() + by_ms > CLOCK_MS_MAX:
            raise PROPERTY_VALUE.with_reason("clock beyond its end", "'$.advance' - must not lead beyond the year 2099")
        await dev_clock.advance(call.database, clock, by_ms)
    return await show_clock(call)


def _clock(call: Call) -> MovableClock:
    assert isinstance(call.clock, MovableClock), "only `paydesk dev` has this endpoint, and its clock can be moved"
    return call.clock
