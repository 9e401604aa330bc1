"""Handlers of the development endpoints, absent in `paydesk serve`: demo inbox, demo callback, clock.

The demo endpoints need no credentials, so the HTTP layer accepts only calls from the same machine.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import msgspec

from paydesk.core import runtime
from paydesk.core.clock import MovableClock, rfc3339
from paydesk.core.errors import PROPERTY_VALUE
from paydesk.core.text.durations import typed_seconds
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.payments.simulator.removals import Removals
from paydesk.platform.operation import Answer, Call, Handled
from paydesk.platform.storage.database import Transaction
from paydesk_dev.clock import clock as dev_clock
from paydesk_dev.clock import next_due
from paydesk_dev.clock.next_due import Due
from paydesk_dev.credentials_file import KeptCredentials
from paydesk_dev.inbox import callback, notifications, store
from paydesk_dev.inbox import checks as inbox_checks
from paydesk_dev.inbox import page as inbox_page
from paydesk_dev.inbox import receiver as inbox
from paydesk_dev.reset import reset
from paydesk_dev.schemas import ClockAnswer, ClockMove, Inbox, NextDue, Received
from paydesk_dev.virtual.fleet import Fleet

SLICE_ENTRIES = 50
"""Notifications that are parsed at once; other requests are served in between."""


async def receive(call: Call) -> Handled:
    """Receive a notification; store it with whether its signatures are valid."""
    secrets = await call.database.read(lambda tx: inbox.secrets_of(tx, call.keys, call.body))
    checks = inbox_checks.check(
        secrets, call.headers, call.query.get("data.id", ""), call.body, runtime.wall_ns() / 1_000_000_000
    )
    entry = inbox.entry_of(call.headers, call.body, received_ms=call.now_ms, checks=checks)

    async def add(tx: Transaction) -> None:
        await store.add_entry(tx, entry)
        if call.shared.objects[Removals].has_removed(entry.order_id):
            raise _OrderRemoved

    with contextlib.suppress(_OrderRemoved):
        await call.database.write(add)
        call.database.signals.hint("inbox")
        call.database.signals.notify((notifications.TOPIC,))
    return Answer(200, {})


class _OrderRemoved(Exception):
    """A reset has removed the order of the notification, which was being sent."""


async def show_inbox(call: Call) -> Handled:
    """List the received notifications: all or the newest, newest last; for a browser a page, newest first."""
    if inbox_page.is_wanted(call.headers.get("accept", "")):

        async def show(tx: Transaction) -> Answer:
            call.begin(tx)
            return await inbox_page.show(call)

        return await call.database.read(show)
    limit = inbox_page.LIMIT.number(call.query) or store.ENTRIES_MAX
    newest = await call.database.read(lambda tx: store.entries(tx, limit), heavy=True)
    entries: list[Received] = []
    for begin in range(0, len(newest), SLICE_ENTRIES):
        entries += map(inbox.received, newest[begin : begin + SLICE_ENTRIES])
        await asyncio.sleep(0)
    return Answer(200, Inbox(entries), (("vary", "accept"),))


async def empty_inbox(call: Call) -> Handled:
    """Delete the received notifications."""
    await store.empty(call.tx)
    if call.database.signals.watched:
        call.tx.notify("hint:inbox:")
    return Answer(204)


async def show_callback(call: Call) -> Handled:
    """Display the authorization code."""
    code = callback.code_of(call.query)
    exchange = await call.database.read(lambda tx: callback.find_exchange(tx, code)) if code else callback.UNKNOWN
    return callback.page(call.query, exchange)


async def show_clock(call: Call) -> Answer:
    """Read the clock, and what is due next."""
    now_ms = _clock(call).now_ms()
    due = await call.database.read(partial(next_due.find, settings=call.settings, now_ms=now_ms))
    return Answer(200, msgspec.structs.replace(_read_clock(call), next=_next(due)))


def _read_clock(call: Call) -> ClockAnswer:
    clock = _clock(call)
    now_ms, machine_ms = clock.now_ms(), runtime.wall_ns() // 1_000_000
    return ClockAnswer(rfc3339(now_ms), clock.frozen_ms is not None, (now_ms - machine_ms) / 1000)


def _next(due: Due | None) -> NextDue | None:
    return NextDue(due.kind, rfc3339(due.due_ms), due.count) if due is not None else None


async def move_clock(call: Call) -> Handled:
    """Freeze, advance, resume or reset the clock."""
    clock, move, due = _clock(call), call.body, None
    assert isinstance(move, ClockMove)
    sightings = call.shared.objects[Gateway].sightings
    # By the earlier time: what has ended is older afterwards.
    call.shared.objects[Gateway].close_disconnected()
    await sightings.write(call.database, is_last=True)
    if move.freeze:
        await dev_clock.freeze(call.database, clock)
    elif move.resume:
        await dev_clock.move(call.database, clock, MovableClock.resume)
    elif move.to_next:
        due = await call.database.read(partial(next_due.find, settings=call.settings, now_ms=clock.now_ms()))
        if due is None:
            return Answer(200, _read_clock(call))
        due_ms = due.due_ms
        # Another request may have moved the clock beyond it meanwhile.
        await dev_clock.move(call.database, clock, lambda moved: moved.advance(max(due_ms - moved.now_ms(), 0)))
    elif move.reset:
        kept = reset.kept_tokens(call.shared.objects.get(KeptCredentials))
        await dev_clock.reset(call.database, clock, kept)
    else:
        by_ms = (typed_seconds(move.advance or "") or 0) * 1000
        if clock.now_ms() + by_ms > next_due.CLOCK_MS_MAX:
            raise PROPERTY_VALUE.with_reason("clock after 2099", "'$.advance' - must not lead beyond the year 2099")
        await dev_clock.move(call.database, clock, lambda moved: moved.advance(by_ms))
    await sightings.clock_moved(call.database)
    # Workers that wait until a time of this clock compute their pauses again.
    call.database.signals.notify(["clock"])
    call.database.signals.hint("clock")
    # The screens of virtual terminals have the time.
    if (fleet := call.shared.objects.get(Fleet)) is not None:
        for terminal_id in fleet.terminals():
            fleet.find(terminal_id).panel.notify()
    credentials = call.shared.objects.get(KeptCredentials)
    renewed = await credentials.renew() if credentials is not None else None
    return Answer(200, msgspec.structs.replace(_read_clock(call), renewed_credentials=renewed, next=_next(due)))


def _clock(call: Call) -> MovableClock:
    assert isinstance(call.clock, MovableClock), "only `paydesk dev` has this endpoint and a movable clock"
    return call.clock
