"""What a terminal may do with an order: acknowledge it, tell how far it came, ask for the grant, give it back.

The order's row is held throughout, so that every rule here is decided against the order as it is.
"""

from __future__ import annotations

from typing import Any

from paydesk.core import ids
from paydesk.core.clock import rfc3339
from paydesk.core.errors import Refusal
from paydesk.device import lease_store
from paydesk.device.errors import (
    CANCEL_NOT_REQUESTED,
    LEASE_NOT_FOUND,
    ORDER_CANCELED,
    ORDER_FINISHED,
    ORDER_GRANTED,
    ORDER_NOT_GRANTED,
)
from paydesk.device.lease_store import Lease
from paydesk.device.schemas import CancelResultRequest, ProgressRequest, SessionRequest
from paydesk.device.sessions import refuse_revoked
from paydesk.operation import Answer, Call, Handled
from paydesk.orders import status, store
from paydesk.orders.order import Order

AUTHORIZING = "authorizing"


async def acknowledge(call: Call) -> Handled:
    """`created → at_terminal`: the terminal has the order. Repeated, it is answered again."""
    refuse_revoked(call)
    request: SessionRequest = call.body
    session = await lease_store.lock_session(call, request.boot_id)
    order = await store.expire_overdue(call.tx, await held(call, call.path), call.now_ms)
    if order.state == status.CREATED:
        return Answer(200, acknowledged(await take(call, order, session)))
    lease = await lease_store.find(call.tx, order.seller_id, order.ulid)
    if order.status not in status.LIVE or lease is None or order.detached_ms is not None:
        # Returned, not raised: an order that was overdue is expired now, and stays so.
        return _over(order)
    if lease.session == session:
        return Answer(200, acknowledged(order))
    return await _resume(call, order, session)


async def progress(call: Call) -> Handled:
    """How far the payment came. `authorizing` asks for the grant; every other step is only written down."""
    refuse_revoked(call)
    request: ProgressRequest = call.body
    session = await lease_store.lock_session(call, request.boot_id)
    order = await store.expire_overdue(call.tx, await held(call, call.path), call.now_ms)
    lease = await lease_store.find(call.tx, order.seller_id, order.ulid)
    if lease is None:
        return _over(order) if order.status == "canceled" else LEASE_NOT_FOUND.with_reason("never acknowledged")
    if order.status == "canceled":
        return _over(order)
    if order.detached_ms is not None:
        return ORDER_CANCELED.with_reason("taken off the terminal")
    if request.step == AUTHORIZING:
        return await _authorize(call, order, lease, session)
    if lease.session == session:
        await lease_store.advance(call.tx, order.seller_id, order.ulid, request.seq, request.step)
    return Answer(200, acknowledged(order))


def lease_of(call: Call) -> tuple[str, ...]:
    """What a terminal does with a lease conflict_keys its order and the terminal itself."""
    return (f"order:ORD{call.paths[0].upper()}", f"terminal:{call.caller.terminal_id}")


async def answer_cancel(call: Call) -> Handled:
    """The terminal's answer to being asked for the order back: given up before the grant, or not."""
    refuse_revoked(call)
    request: CancelResultRequest = call.body
    await lease_store.lock_session(call, request.boot_id)
    order = await store.expire_overdue(call.tx, await held(call, call.path), call.now_ms)
    if request.done and order.status in status.LIVE and order.detached_ms is None:
        canceled = await store.move(call.tx, status.CONFIRM_CANCEL, order, call.now_ms)
        if canceled is None:
            return _not_released(order)
        await store.end_lease(call.tx, canceled, "cancel", call.now_ms)
        return Answer(200, acknowledged(canceled))
    if order.state == status.CANCELLATION_REQUESTED and order.permitted_ms is None:
        return ORDER_NOT_GRANTED.with_reason("turned down before the grant")
    return Answer(200, acknowledged(order))


def _not_released(order: Order) -> Refusal:
    if order.state == status.AT_TERMINAL and order.permitted_ms is None:
        return CANCEL_NOT_REQUESTED.with_reason("done, but no cancel was asked for")
    return ORDER_GRANTED.with_reason(f"done, but the order is {order.state}")


async def held(call: Call, lease_id: str) -> Order:
    """The lease's order, held until the end of the transaction. Raises `lease_not_found`."""
    order_id = f"ORD{lease_id.upper()}"
    # What is no id at all may have characters that a database refuses.
    order = await store.lock(call.tx, call.caller.seller_id, order_id) if ids.ORDER_ID.fullmatch(order_id) else None
    if order is None or order.terminal_id != call.caller.terminal_id:
        raise LEASE_NOT_FOUND.with_reason("unknown lease" if order is None else "another terminal's lease")
    return order


async def take(call: Call, order: Order, session: int) -> Order:
    """Move a created order to its terminal, which holds it from now on."""
    taken = await store.move(call.tx, status.ACKNOWLEDGE, order, call.now_ms)
    assert taken is not None, "the row is held and was created a moment ago"
    await lease_store.create(call.tx, taken.seller_id, taken.order_id, taken.terminal_id, session, call.now_ms)
    return taken


def acknowledged(order: Order) -> dict[str, Any]:
    """The order as every answer to a terminal tells it."""
    return {"order": {"id": order.order_id, "status": order.status, "status_detail": order.status_detail}}


async def _resume(call: Call, order: Order, session: int) -> Handled:
    """A later start of the terminal takes the order up again, as long as nothing can have been charged."""
    if order.state == status.AT_TERMINAL and order.permitted_ms is None:
        await lease_store.hand_over(call.tx, order.seller_id, order.ulid, session)
        return Answer(200, acknowledged(order))
    canceled = await store.move(call.tx, status.CONFIRM_CANCEL, order, call.now_ms)
    if canceled is not None:
        # The earlier start was asked for the order back; this one never began with it.
        await store.end_lease(call.tx, canceled, "cancel", call.now_ms)
    return ORDER_CANCELED.with_reason("granted to an earlier session" if canceled is None else "cancel was asked")


async def _authorize(call: Call, order: Order, lease: Lease, session: int) -> Handled:
    if lease.session != session:
        return ORDER_CANCELED.with_reason(f"the lease is session {lease.session}'s")
    permitted_ms = order.permitted_ms
    if permitted_ms is None and await store.permit_authorization(call.tx, order, call.now_ms):
        permitted_ms = call.now_ms
        await lease_store.advance(call.tx, order.seller_id, order.ulid, call.body.seq, AUTHORIZING)
    # Once the outcome is unknown, or known, nothing is charged any more.
    if permitted_ms is None or order.state != status.AT_TERMINAL:
        return ORDER_CANCELED.with_reason(f"the order is {order.state}")
    return Answer(200, {"go": True, "until": rfc3339(permitted_ms + call.settings.permit_seconds * 1000)})


def _over(order: Order) -> Refusal:
    kind = ORDER_CANCELED if order.status in ("canceled", *status.LIVE) else ORDER_FINISHED
    return kind.with_reason(f"the order is {order.state}")
