"""Handlers of the development endpoints, absent in `paydesk serve`: demo inbox, demo callback, clock, acquirer.

The demo endpoints need no credentials, so the HTTP layer accepts only calls from the same machine.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import msgspec

from paydesk.core import runtime
from paydesk.core.clock import MovableClock, rfc3339
from paydesk.core.errors import FORBIDDEN, PROPERTY_VALUE
from paydesk.core.money import CURRENCIES, decimal_string, minor_units
from paydesk.core.text.durations import typed_seconds
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.device.sessions import refuse_revoked
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.errors import ORDER_NOT_FOUND
from paydesk.engine.payments.acquirer import Approved, Card, Declined, NotSent, Outcome, Payment, Unknown
from paydesk.engine.payments.acquirers import Acquirers, CheckedAcquirer
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
from paydesk_dev.schemas import AcquirerOutcome, AcquirerRequest, ClockAnswer, ClockMove, Inbox, NextDue, Received
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


async def authorize(call: Call) -> Handled:
    """Request an authorization from the simulated acquirer. It charges a payment id at most once.

    The terminal reports the result itself. A payment that no order has is refused: it would be in the ledger for ever,
    with nothing to compare it with.
    """
    refuse_revoked(call)
    acquirers = call.shared.objects[Acquirers]
    simulator = acquirers.live.get("simulator") if call.caller.live else acquirers.test
    if simulator is None:
        raise FORBIDDEN.with_reason("no simulator for live", message="Live terminals have no simulated acquirer here.")
    request: AcquirerRequest = call.body
    caller, method = call.caller, request.payment_method
    amount_minor = minor_units(request.amount, CURRENCIES[caller.currency].decimals)
    if not amount_minor:
        raise PROPERTY_VALUE.with_reason("amount", f"'$.amount' - must be an amount of {caller.currency} above zero")
    payment = Payment(
        caller.seller_id, caller.terminal_id, request.payment_id, amount_minor, caller.currency, method.installments
    )
    order_id = f"ORD{request.payment_id.removeprefix('PAY')}"
    order = await call.database.read(lambda tx: orders.find(tx, payment.merchant_id, order_id))
    if order is None or bool(order.live) != caller.live:
        raise ORDER_NOT_FOUND.with_reason(
            "no order has the payment", message="No order has this payment. Send the payment_id of the order offered."
        )
    card = None
    if (sent := request.card) is not None:  # A wallet has none.
        card = Card(method.id, method.type, sent.first_digits, sent.last_digits, sent.entry_mode or "")
    acquirer = CheckedAcquirer(simulator)
    outcome = await acquirer.authorize(payment, card)
    if isinstance(outcome, Approved) and outcome.needs_confirmation:
        # A terminal that asks its acquirer itself confirms the approval there too.
        confirmed = await acquirer.confirm(payment, reference_id=outcome.reference_id)
        if not isinstance(confirmed, Approved):
            outcome = Unknown("the approval is not confirmed")
    return Answer(200, _answer(payment, outcome))


def _answer(payment: Payment, outcome: Outcome) -> AcquirerOutcome:
    match outcome:
        case Approved():
            amount = decimal_string(outcome.amount_minor, CURRENCIES[payment.currency].decimals)
            return AcquirerOutcome("approved", None, amount, outcome.authorization_code or "", outcome.reference_id)
        case Declined():
            return AcquirerOutcome("declined", outcome.detail)
        case NotSent():
            return AcquirerOutcome("not_sent")
        case _:
            return AcquirerOutcome("unknown")


def _clock(call: Call) -> MovableClock:
    assert isinstance(call.clock, MovableClock), "only `paydesk dev` has this endpoint and a movable clock"
    return call.clock
