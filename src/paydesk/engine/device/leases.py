"""A terminal's calls on its lease: acknowledge the order, report progress, request authorization, release the order.

The order's row is locked throughout, so every rule is checked against its current state.
"""

from __future__ import annotations

from paydesk.core import ids
from paydesk.core.clock import rfc3339
from paydesk.core.errors import Refusal
from paydesk.engine.device import store
from paydesk.engine.device.errors import (
    CANCEL_NOT_REQUESTED,
    LEASE_NOT_FOUND,
    ORDER_CANCELED,
    ORDER_FINISHED,
    ORDER_GRANTED,
    ORDER_NOT_GRANTED,
)
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.device.schemas import (
    CancelResultRequest,
    LeasedOrder,
    OrderState,
    ProgressAnswer,
    ProgressRequest,
    SessionRequest,
)
from paydesk.engine.device.sessions import lock_session, refuse_revoked
from paydesk.engine.device.store import Lease
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change, change_of
from paydesk.engine.orders.order import Order
from paydesk.platform.operation import Answer, Call, Caller, Handled
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Transaction

AUTHORIZING = "authorizing"


async def acknowledge(call: Call) -> Handled:
    """Move the order `created → at_terminal`. A repeated acknowledgement gets the same answer.

    In a newer session the lease moves to it, if authorization is not permitted yet.
    """
    request: SessionRequest = call.body
    change, session, order = await _begin(call, request.boot_id)
    if order.state == status.CREATED:
        offered_ms = call.shared.objects[Gateway].offered_ms(order.terminal_id, order.ulid)
        return Answer(200, order_body(await take(change, order, session, offered_ms)))
    lease = await store.find_lease(call.tx, order.seller_id, order.ulid)
    if order.status not in status.LIVE or lease is None or order.detached_ms is not None:
        # Returned, not raised, so that the expiry is committed.
        return ended(order)
    if lease.session == session:
        return Answer(200, order_body(order))
    if order.state == status.AT_TERMINAL and order.permitted_ms is None:
        await store.set_lease_session(call.tx, order.seller_id, order.ulid, session)
        return Answer(200, order_body(order))
    # The earlier session was sent the cancel; this one has not started the payment.
    canceled = await orders.confirm_cancel(change, order)
    return ORDER_CANCELED.with_reason(
        "authorization permitted to an earlier session" if canceled is None else "cancel requested"
    )


async def progress(call: Call) -> Handled:
    """Report a payment step, or request the permit to authorize. The step `authorizing` requests it."""
    request: ProgressRequest = call.body
    change, session, order = await _begin(call, request.boot_id)
    lease = await store.find_lease(call.tx, order.seller_id, order.ulid)
    if order.status == "canceled":
        return ended(order)
    if lease is None:
        return LEASE_NOT_FOUND.with_reason("never acknowledged")
    if order.detached_ms is not None:
        return ORDER_CANCELED.with_reason("detached")
    if call.database.signals.watched:
        call.tx.notify(f"hint:order:{order.order_id}")
    if request.step == AUTHORIZING:
        permitted_ms = await permit(change, order, lease, session)
        if isinstance(permitted_ms, Refusal):
            return permitted_ms
        if order.permitted_ms is None:
            await store.advance_lease(call.tx, order.seller_id, order.ulid, request.seq, AUTHORIZING, call.now_ms)
        until_ms = permitted_ms + call.settings.grant_seconds * 1000
        return Answer(200, ProgressAnswer(go=True, until=rfc3339(until_ms)))
    if lease.session == session:
        await store.advance_lease(call.tx, order.seller_id, order.ulid, request.seq, request.step, call.now_ms)
    return Answer(200, order_body(order))


def lease_keys(call: Call) -> tuple[ConflictKey, ...]:
    """Return what a call on a lease may change or lock: its order and the terminal."""
    return conflict_keys.order(f"ORD{call.paths[0].upper()}"), conflict_keys.terminal(call.caller.terminal_id)


async def answer_cancel(call: Call) -> Handled:
    """Answer a cancel message: the terminal has released the order, or declines."""
    request: CancelResultRequest = call.body
    change, _, order = await _begin(call, request.boot_id)
    if request.done and order.status in status.LIVE and order.detached_ms is None:
        canceled = await orders.confirm_cancel(change, order)
        if canceled is not None:
            return Answer(200, order_body(canceled))
        if order.state == status.AT_TERMINAL and order.permitted_ms is None:
            return CANCEL_NOT_REQUESTED.with_reason("done, but no cancel was requested")
        return ORDER_GRANTED.with_reason(f"done, but the order is {order.state}")
    if order.state == status.CANCELLATION_REQUESTED and order.permitted_ms is None:
        return ORDER_NOT_GRANTED.with_reason("declined before authorization was permitted")
    return Answer(200, order_body(order))


async def _begin(call: Call, boot_id: str) -> tuple[Change, int, Order]:
    """Return the change, the terminal's session and the lease's order, expired if it is overdue. Both are locked."""
    refuse_revoked(call)
    change, session = change_of(call), await lock_session(call, boot_id)
    return change, session, await orders.expire_overdue(change, await lock_order(call.tx, call.caller, call.path))


async def lock_order(tx: Transaction, caller: Caller, lease_id: str) -> Order:
    """Return the lease's order, locked until the transaction ends. Raises `lease_not_found`."""
    order_id = f"ORD{lease_id.upper()}"
    # Checked first: a malformed id may contain characters that a database refuses.
    order = await orders.lock(tx, caller.seller_id, order_id) if ids.ORDER_ID.fullmatch(order_id) else None
    if order is None or order.terminal_id != caller.terminal_id:
        raise LEASE_NOT_FOUND.with_reason("unknown lease" if order is None else "another terminal's lease")
    return order


async def take(change: Change, order: Order, session: int, offered_ms: int | None) -> Order:
    """Move a created order to its terminal and insert its lease; `offered_ms` is None where it isn't known."""
    taken = await orders.move(change, status.ACKNOWLEDGE, order)
    assert taken is not None, "the row is locked and was read as created"
    await store.insert_lease(change.tx, taken, session, change.now_ms, offered_ms)
    return taken


def order_body(order: Order) -> OrderState:
    """Return the order as every answer to a terminal shows it."""
    return OrderState(LeasedOrder(order.order_id, order.status, order.status_detail))


async def permit(change: Change, order: Order, lease: Lease, session: int) -> int | Refusal:
    """Permit the authorization, if it is not permitted yet; return since when it is, or why it is refused."""
    if lease.session != session:
        return ORDER_CANCELED.with_reason(f"the lease is session {lease.session}'s")
    permitted_ms = order.permitted_ms
    if permitted_ms is None and await orders.permit_authorization(change, order):
        permitted_ms = change.now_ms
    # Beyond at_terminal the outcome is known or under inquiry: no further charge.
    if permitted_ms is None or order.state != status.AT_TERMINAL:
        return ORDER_CANCELED.with_reason(f"the order is {order.state}")
    return permitted_ms


def ended(order: Order) -> Refusal:
    """Return the refusal of a call on an order that has ended, or was taken from its terminal."""
    kind = ORDER_CANCELED if order.status in ("canceled", *status.LIVE) else ORDER_FINISHED
    return kind.with_reason(f"the order is {order.state}")
