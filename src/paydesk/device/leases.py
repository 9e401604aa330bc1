"""A terminal's calls on its lease: acknowledge the order, report progress, request authorization, release the order.

The order's row is locked throughout, so every rule is checked against its current state.
"""

from __future__ import annotations

from typing import Any

from paydesk.core import conflict_keys, ids
from paydesk.core.clock import rfc3339
from paydesk.core.conflict_keys import ConflictKey
from paydesk.core.errors import Refusal
from paydesk.device import store
from paydesk.device.errors import (
    CANCEL_NOT_REQUESTED,
    LEASE_NOT_FOUND,
    ORDER_CANCELED,
    ORDER_FINISHED,
    ORDER_GRANTED,
    ORDER_NOT_GRANTED,
)
from paydesk.device.schemas import CancelResultRequest, ProgressRequest, SessionRequest
from paydesk.device.sessions import lock_session, refuse_revoked
from paydesk.device.store import Lease
from paydesk.operation import Answer, Call, Handled
from paydesk.orders import status
from paydesk.orders import store as orders
from paydesk.orders.order import Order

AUTHORIZING = "authorizing"


async def acknowledge(call: Call) -> Handled:
    """Move the order `created → at_terminal`. A repeated acknowledgement gets the same answer."""
    refuse_revoked(call)
    request: SessionRequest = call.body
    session = await lock_session(call, request.boot_id)
    order = await orders.expire_overdue(call.tx, await lock_order(call, call.path), call.now_ms)
    if order.state == status.CREATED:
        return Answer(200, order_body(await take(call, order, session)))
    lease = await store.find_lease(call.tx, order.seller_id, order.ulid)
    if order.status not in status.LIVE or lease is None or order.detached_ms is not None:
        # Returned, not raised, so that the expiry is committed.
        return _ended(order)
    if lease.session == session:
        return Answer(200, order_body(order))
    return await _resume(call, order, session)


async def progress(call: Call) -> Handled:
    """Record the step of the payment. `authorizing` requests the authorization permit."""
    refuse_revoked(call)
    request: ProgressRequest = call.body
    session = await lock_session(call, request.boot_id)
    order = await orders.expire_overdue(call.tx, await lock_order(call, call.path), call.now_ms)
    lease = await store.find_lease(call.tx, order.seller_id, order.ulid)
    if order.status == "canceled":
        return _ended(order)
    if lease is None:
        return LEASE_NOT_FOUND.with_reason("never acknowledged")
    if order.detached_ms is not None:
        return ORDER_CANCELED.with_reason("detached")
    if request.step == AUTHORIZING:
        return await _authorize(call, order, lease, session)
    if lease.session == session:
        await store.advance_lease(call.tx, order.seller_id, order.ulid, request.seq, request.step)
    return Answer(200, order_body(order))


def lease_keys(call: Call) -> tuple[ConflictKey, ...]:
    """Return what a call on a lease may change or lock: its order and the terminal."""
    return conflict_keys.order(f"ORD{call.paths[0].upper()}"), conflict_keys.terminal(call.caller.terminal_id)


async def answer_cancel(call: Call) -> Handled:
    """Handle the terminal's answer to a cancel message: order released, or declined."""
    refuse_revoked(call)
    request: CancelResultRequest = call.body
    await lock_session(call, request.boot_id)
    order = await orders.expire_overdue(call.tx, await lock_order(call, call.path), call.now_ms)
    if request.done and order.status in status.LIVE and order.detached_ms is None:
        canceled = await orders.move(call.tx, status.CONFIRM_CANCEL, order, call.now_ms)
        if canceled is None:
            return _not_released(order)
        await orders.end_lease(call.tx, canceled, "cancel", call.now_ms)
        return Answer(200, order_body(canceled))
    if order.state == status.CANCELLATION_REQUESTED and order.permitted_ms is None:
        return ORDER_NOT_GRANTED.with_reason("declined before authorization was permitted")
    return Answer(200, order_body(order))


def _not_released(order: Order) -> Refusal:
    if order.state == status.AT_TERMINAL and order.permitted_ms is None:
        return CANCEL_NOT_REQUESTED.with_reason("done, but no cancel was requested")
    return ORDER_GRANTED.with_reason(f"done, but the order is {order.state}")


async def lock_order(call: Call, lease_id: str) -> Order:
    """Return the lease's order, locked until the transaction ends. Raises `lease_not_found`."""
    order_id = f"ORD{lease_id.upper()}"
    # Checked first: a malformed id may contain characters that a database refuses.
    order = await orders.lock(call.tx, call.caller.seller_id, order_id) if ids.ORDER_ID.fullmatch(order_id) else None
    if order is None or order.terminal_id != call.caller.terminal_id:
        raise LEASE_NOT_FOUND.with_reason("unknown lease" if order is None else "another terminal's lease")
    return order


async def take(call: Call, order: Order, session: int) -> Order:
    """Move a created order to its terminal and insert its lease."""
    taken = await orders.move(call.tx, status.ACKNOWLEDGE, order, call.now_ms)
    assert taken is not None, "the row is locked and was read as created"
    await store.insert_lease(call.tx, taken, session, call.now_ms)
    return taken


def order_body(order: Order) -> dict[str, Any]:
    """Return the order as every answer to a terminal shows it."""
    return {"order": {"id": order.order_id, "status": order.status, "status_detail": order.status_detail}}


async def _resume(call: Call, order: Order, session: int) -> Handled:
    """Move the lease to the terminal's newer session, if authorization is not permitted yet."""
    if order.state == status.AT_TERMINAL and order.permitted_ms is None:
        await store.set_lease_session(call.tx, order.seller_id, order.ulid, session)
        return Answer(200, order_body(order))
    canceled = await orders.move(call.tx, status.CONFIRM_CANCEL, order, call.now_ms)
    if canceled is not None:
        # The earlier session was sent the cancel; this one has not started the payment.
        await orders.end_lease(call.tx, canceled, "cancel", call.now_ms)
    return ORDER_CANCELED.with_reason(
        "authorization permitted to an earlier session" if canceled is None else "cancel requested"
    )


async def _authorize(call: Call, order: Order, lease: Lease, session: int) -> Handled:
    if lease.session != session:
        return ORDER_CANCELED.with_reason(f"the lease is session {lease.session}'s")
    permitted_ms = order.permitted_ms
    if permitted_ms is None and await orders.permit_authorization(call.tx, order, call.now_ms):
        permitted_ms = call.now_ms
        await store.advance_lease(call.tx, order.seller_id, order.ulid, call.body.seq, AUTHORIZING)
    # Beyond at_terminal the outcome is known or under inquiry: no further charge.
    if permitted_ms is None or order.state != status.AT_TERMINAL:
        return ORDER_CANCELED.with_reason(f"the order is {order.state}")
    return Answer(200, {"go": True, "until": rfc3339(permitted_ms + call.settings.grant_seconds * 1000)})


def _ended(order: Order) -> Refusal:
    kind = ORDER_CANCELED if order.status in ("canceled", *status.LIVE) else ORDER_FINISHED
    return kind.with_reason(f"the order is {order.state}")
