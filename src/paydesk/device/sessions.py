"""Sessions of terminals: hello begins one and gives a verdict on each lease in the terminal's journal."""

from __future__ import annotations

from functools import partial
from typing import Any

from paydesk.core.clock import rfc3339
from paydesk.core.errors import UNAUTHORIZED, Refusal
from paydesk.device import store
from paydesk.device.errors import STALE_SESSION
from paydesk.device.schemas import HelloRequest, JournalEntry
from paydesk.device.verdicts import Effect, Verdict, judge, state_of
from paydesk.operation import Answer, Call, Handled
from paydesk.operator_events import OperatorEvent
from paydesk.orders import status
from paydesk.orders import store as orders
from paydesk.orders.order import Order
from paydesk.storage.database import Transaction
from paydesk.terminals import store as terminals

SELLER_NAME = "SELECT name FROM sellers WHERE seller_id = $1"


async def hello(call: Call) -> Handled:
    """Begin the session of this `boot_id`, or repeat the answer of the session that it has."""
    refuse_revoked(call)
    session, body = await call.database.write(partial(_begin, call=call))
    call.shared.gateway.session_began(call.caller.terminal_id, session, body["operating_mode"])
    return Answer(200, body)


def refuse_revoked(call: Call) -> None:
    """Raise `unauthorized` for a revoked device token, which is accepted for results only."""
    if call.caller.revoked:
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


async def _begin(tx: Transaction, call: Call) -> tuple[int, dict[str, Any]]:
    """Return the session and the body of the answer."""
    request: HelloRequest = call.body
    seller_id, terminal_id = call.caller.seller_id, call.caller.terminal_id
    terminal = await terminals.lock(tx, seller_id, terminal_id)
    assert terminal is not None, "a device token belongs to a terminal"
    newest, own = await store.find_sessions(tx, seller_id, terminal_id, request.boot_id)
    if own is not None and own < newest:
        raise stale(call, own, newest)
    session = own or newest + 1
    if own is None:
        await store.begin_session(
            tx, seller_id, terminal_id, request.boot_id, request.app_version, session, call.now_ms
        )
    verdicts = [await _judge_entry(tx, call, entry, session) for entry in request.journal]
    verdicts += await _judge_missing(tx, call, {entry.lease_id.upper() for entry in request.journal}, session)
    row = await tx.one(SELLER_NAME, seller_id)
    return session, {
        "terminal_id": terminal_id,
        "operating_mode": terminal.operating_mode,
        "seller_name": row[0] if row else "",
        "currency": call.caller.currency,
        "time": rfc3339(call.now_ms),
        "leases": verdicts,
    }


async def _judge_entry(tx: Transaction, call: Call, entry: JournalEntry, session: int) -> dict[str, str]:
    order = await orders.lock(tx, call.caller.seller_id, f"ORD{entry.lease_id.upper()}")
    if order is not None and order.terminal_id != call.caller.terminal_id:
        order = None
    verdict, effect = judge(entry.last_step, state_of(order, call.now_ms), has_result=entry.result is not None)
    if order is not None:
        await _apply(tx, order, effect, session, call.now_ms)
    return _lease(entry.lease_id, verdict)


async def _judge_missing(tx: Transaction, call: Call, journaled: set[str], session: int) -> list[dict[str, str]]:
    """Judge the terminal's live order if it is missing from the journal.

    Before authorization is permitted the order is offered again; afterwards the terminal holds.
    """
    order = await orders.live_on_terminal(tx, call.caller.seller_id, call.caller.terminal_id)
    if order is None or order.ulid in journaled:
        return []
    order = await orders.lock(tx, order.seller_id, order.order_id)
    if order is None or state_of(order, call.now_ms) not in ("permitted", "unknown"):
        return []
    await _apply(tx, order, "inquire", session, call.now_ms)
    return [_lease(order.ulid, "hold")]


async def _apply(tx: Transaction, order: Order, effect: Effect, session: int, now_ms: int) -> None:
    match effect:
        case "re_lease":
            await store.set_lease_session(tx, order.seller_id, order.ulid, session)
        case "cancel":
            await _cancel(tx, order, now_ms)
        case "inquire":
            if await orders.move(tx, status.CHECK, order, now_ms, origin="terminal") is not None:
                await orders.inquire(tx, order, "the terminal was restarted", now_ms)


async def _cancel(tx: Transaction, order: Order, now_ms: int) -> None:
    current = await orders.expire_overdue(tx, order, now_ms)
    if await orders.move(tx, status.CONFIRM_CANCEL, current, now_ms) is not None:
        await orders.end_lease(tx, current, "cancel", now_ms)


def _lease(lease_id: str, verdict: Verdict) -> dict[str, str]:
    return {"lease_id": lease_id, "verdict": verdict}
