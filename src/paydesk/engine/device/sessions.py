"""Sessions of terminals: hello begins one and gives a verdict on each lease in the terminal's journal."""

from __future__ import annotations

from functools import partial

from paydesk.core.clock import rfc3339
from paydesk.core.errors import UNAUTHORIZED, Refusal
from paydesk.engine.device import store
from paydesk.engine.device.errors import STALE_SESSION
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.device.rules.verdicts import AFTER_PERMIT, judge, state_of
from paydesk.engine.device.schemas import HelloAnswer, HelloRequest, JournalEntry, JudgedLease
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change, change_at
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import outcomes
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals.store import Terminal
from paydesk.platform.operation import Answer, Call, Handled
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.storage.database import Transaction

SELLER_NAME = "SELECT name FROM sellers WHERE seller_id = $1"


async def hello(call: Call) -> Handled:
    """Begin a terminal's session. A repeated hello with its `boot_id` gets the same answer."""
    refuse_revoked(call)
    session, body = await call.database.write(partial(_begin, call=call))
    call.shared.objects[Gateway].session_began(call.caller.terminal_id, session, body.operating_mode)
    return Answer(200, body)


def refuse_revoked(call: Call) -> None:
    """Raise `unauthorized` for a revoked device token, which is accepted for results only."""
    if call.caller.revoked_ms is not None:
        raise UNAUTHORIZED.with_reason("revoked device token")


async def lock_session(call: Call, boot_id: str) -> int:
    """Return the session of `boot_id`, which stays the newest until the transaction ends. Raises `stale_session`."""
    newest, own = await store.find_sessions(call.tx, call.caller.seller_id, call.caller.terminal_id, boot_id, lock=True)
    if own is None or own != newest:
        raise stale(call, own, newest)
    return own


def stale(call: Call, own: int | None, newest: int, *, is_late: bool = True) -> Refusal:
    """Return the refusal of a session that is not the newest.

    A restarted device never uses its earlier session again. A call that `is_late`, that is, arrived in an earlier
    session after the newer one had begun, therefore shows two devices with one token, and operators are alerted.
    """
    if own is None:
        return STALE_SESSION.with_reason("no hello")
    if is_late:
        call.alert = OperatorEvent(
            "terminal_session_conflict",
            call.caller.terminal_id,
            "A call came from an earlier session after a newer one had begun: two devices may use one device token.",
            call.caller.seller_id,
            {"session": own, "newest_session": newest, "address": call.address},
        )
    return STALE_SESSION.with_reason(f"session {own}, the newest is {newest}")


async def _begin(tx: Transaction, call: Call) -> tuple[int, HelloAnswer]:
    """Return the session and the body of the answer."""
    request: HelloRequest = call.body
    seller_id, terminal_id = call.caller.seller_id, call.caller.terminal_id
    terminal = await terminals.lock(tx, seller_id, terminal_id)
    if terminal is None:
        raise UNAUTHORIZED.with_reason("the terminal was deleted")
    # The token may have been revoked since the request was authenticated; the terminal's lock excludes it from here on.
    if not await terminals.use_token(tx, seller_id, call.caller.token_digest, call.now_ms):
        raise UNAUTHORIZED.with_reason("revoked device token")
    newest, own = await store.find_sessions(tx, seller_id, terminal_id, request.boot_id)
    if own is not None and own < newest:
        raise stale(call, own, newest)
    session = own or newest + 1
    if own is None:
        await store.begin_session(
            tx, seller_id, terminal_id, request.boot_id, request.app_version, session, call.now_ms
        )
    change = change_at(tx, call.now_ms, call.settings)
    permit_seconds = call.settings.grant_seconds
    verdicts = [
        await _judge_entry(change, terminal, entry, session, permit_seconds, is_repeated=own is not None)
        for entry in request.journal
    ]
    journaled = {entry.lease_id.upper() for entry in request.journal}
    verdicts += await _judge_missing(change, terminal, journaled, permit_seconds)
    row = await tx.one(SELLER_NAME, seller_id)
    return session, HelloAnswer(
        terminal_id=terminal_id,
        operating_mode=terminal.operating_mode,
        seller_name=row[0] if row else "",
        currency=call.caller.currency,
        time=rfc3339(call.now_ms),
        leases=verdicts,
    )


async def _judge_entry(
    change: Change, terminal: Terminal, entry: JournalEntry, session: int, permit_seconds: int, *, is_repeated: bool
) -> JudgedLease:
    order = await orders.lock(change.tx, terminal.seller_id, f"ORD{entry.lease_id.upper()}")
    if order is not None and order.terminal_id != terminal.terminal_id:
        order = None
    state = state_of(order, change.now_ms, permit_seconds)
    # A terminal of kind `service` never calls the acquirer itself. The database's evidence outweighs the journal.
    sent = False if terminal.kind == "service" else entry.sent
    if sent is False and order is not None and await store.may_be_charged(change.tx, order):
        sent = True
    verdict, effect = judge(entry.last_step, state, has_result=entry.result is not None, sent=sent)
    if is_repeated and effect == "fail" and state in AFTER_PERMIT:
        # A delayed hello may arrive after its repetition: the terminal may have called the acquirer since.
        verdict, effect = judge(entry.last_step, state, has_result=False, sent=True)
    if order is None:
        return JudgedLease(entry.lease_id, verdict)
    match effect:
        case "re_lease":
            await store.set_lease_session(change.tx, order.seller_id, order.ulid, session)
        case "cancel":
            await orders.confirm_cancel(change, await orders.expire_overdue(change, order))
        case "inquire":
            await _inquire(change, order)
        case "fail":
            # An open inquiry continues: should the acquirer have an approval all the same, it is reversed.
            await outcomes.decline(change, order, by="abort", detail="processing_error", origin="terminal")
    return JudgedLease(entry.lease_id, verdict)


async def _judge_missing(
    change: Change, terminal: Terminal, journaled: set[str], permit_seconds: int
) -> list[JudgedLease]:
    """Judge the terminal's live order if it is missing from the journal.

    Before authorization is permitted the order is offered again; afterwards the terminal holds.
    """
    order = await orders.live_on_terminal(change.tx, terminal.seller_id, terminal.terminal_id)
    if order is None or order.ulid in journaled:
        return []
    order = await orders.lock(change.tx, order.seller_id, order.order_id)
    if order is None or state_of(order, change.now_ms, permit_seconds) not in AFTER_PERMIT:
        return []
    await _inquire(change, order)
    return [JudgedLease(order.ulid, "hold")]


async def _inquire(change: Change, order: Order) -> None:
    if await orders.move(change, status.CHECK, order, origin="terminal") is not None:
        await orders.inquire(change, order, "the terminal was restarted")
