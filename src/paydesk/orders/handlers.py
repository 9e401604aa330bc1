"""Create, get, search and cancel orders."""

from __future__ import annotations

import msgspec

from paydesk.core import conflict_keys, ids
from paydesk.core.conflict_keys import ConflictKey
from paydesk.core.durations import seconds_of
from paydesk.core.errors import Refusal
from paydesk.core.money import CURRENCIES, minor_units
from paydesk.operation import Answer, Call, Handled
from paydesk.orders import search_store, searching, status, status_labels, store
from paydesk.orders.errors import (
    ALREADY_QUEUED_ORDER_ON_TERMINAL,
    CANNOT_CANCEL_ORDER,
    FORBIDDEN_CHECKING_TERMINAL_OWNER,
    ORDER_ALREADY_CANCELED,
    ORDER_NOT_FOUND,
    TERMINAL_NOT_IN_PDV_MODE,
)
from paydesk.orders.order import Order
from paydesk.orders.presentation import order_document
from paydesk.orders.schemas import OrderRequest
from paydesk.terminals import store as terminals
from paydesk.terminals.modes import ORDER_MODES

AT_TERMINAL_HEADER = "x-allow-cancelable-status"
AT_TERMINAL = "X-Allow-Cancelable-Status: at_terminal"


def terminal_key(call: Call) -> tuple[ConflictKey, ...]:
    """Return the conflict key of creating an order: its terminal."""
    return (conflict_keys.terminal(call.body.config.point.terminal_id),)


def order_key(call: Call) -> tuple[ConflictKey, ...]:
    """Return the conflict key of an operation on one order."""
    return (conflict_keys.order(call.path),)


async def create(call: Call) -> Handled:
    """Create an order for a terminal that accepts orders and has no live one."""
    tx, caller, order = call.tx, call.caller, _new(call)
    # The row stays locked until the commit, so the terminal's mode cannot change meanwhile.
    terminal = await terminals.for_order(tx, caller.seller_id, order.terminal_id)
    if terminal is None or terminal.live != order.live:
        raise FORBIDDEN_CHECKING_TERMINAL_OWNER.with_reason("unknown terminal" if terminal is None else "other mode")
    if terminal.operating_mode not in ORDER_MODES:
        raise TERMINAL_NOT_IN_PDV_MODE.with_reason(f"mode is {terminal.operating_mode}")
    if not await store.create(tx, order, call.now_ms):
        await _expire_conflicting(call, order.terminal_id)
        created = await store.create(tx, order, call.now_ms)
        assert created, "the terminal row is locked, so no conflicting order can appear"
    return Answer(201, order_document(order))


async def _expire_conflicting(call: Call, terminal_id: str) -> None:
    """Expire the terminal's live order if it is overdue. Raises `already_queued_order_on_terminal` if it is not."""
    conflicting = await store.live_on_terminal(call.tx, call.caller.seller_id, terminal_id)
    if conflicting is None:
        # It has ended since the insert failed: a cancel, the expiry and a result lock the order, not the terminal.
        return
    current = await store.expire_overdue(call.tx, conflicting, call.now_ms)
    if current.status in status.LIVE:
        raise _already_queued(call, conflicting)


async def get(call: Call) -> Handled:
    """Return the order."""
    return Answer(200, order_document(await requested_order(call)))


async def search(call: Call) -> Handled:
    """Return a page of the seller's orders that match the query, and their total number."""
    query = searching.read(call.query_string, call.now_ms)
    seller_id, live = call.caller.seller_id, call.caller.live
    total = await search_store.count(call.tx, seller_id, query, live=live)
    page = await search_store.page(call.tx, seller_id, query, live=live) if total > query.offset else []
    paging = {
        "total": total,
        "total_pages": -(-total // query.limit),
        "offset": query.offset,
        "limit": query.limit,
    }
    # Existing clients expect strings.
    return Answer(
        200, {"data": list(map(order_document, page)), "paging": {name: str(paging[name]) for name in paging}}
    )


async def cancel(call: Call) -> Handled:
    """Cancel a created order at once, or, with the extra header, request the terminal to release one it has."""
    order = await store.expire_overdue(call.tx, await requested_order(call), call.now_ms)
    canceled = await store.move(call.tx, status.CANCEL, order, call.now_ms)
    if canceled is not None:
        return Answer(200, order_document(canceled))
    if call.headers.get(AT_TERMINAL_HEADER) == "at_terminal":
        requested = await _request_cancel(call, order)
        if requested is not None:
            return Answer(202, order_document(requested))
    # Returned, not raised, so that an expiry above is committed.
    return _not_canceled(await requested_order(call))


async def _request_cancel(call: Call, order: Order) -> Order | None:
    """Record a cancel request for the terminal; after authorization is permitted it has no effect.

    None if the order is not at its terminal, or its outcome is unknown.
    """
    requested = await store.move(call.tx, status.REQUEST_CANCEL, order, call.now_ms, cancel_requested_ms=call.now_ms)
    return requested or await store.record_cancel_request(call.tx, order, call.now_ms)


def _not_canceled(order: Order) -> Refusal:
    if order.status == "canceled":
        return ORDER_ALREADY_CANCELED.with_reason(f"is {order.status_detail}")
    return CANNOT_CANCEL_ORDER.with_reason(
        f"is {order.status}", f"the order is {status_labels.status_of(order)}{_advice(order)}"
    )


def _advice(order: Order) -> str:
    if order.state == status.CHECK_ON_TERMINAL:
        return "; its outcome is unknown, and it will end as processed or failed"
    return f"; send {AT_TERMINAL} to request a cancel at its terminal" if order.status == "at_terminal" else ""


def _already_queued(call: Call, conflicting: Order) -> Refusal:
    own = conflicting.application_id == call.caller.application_id
    details = (f"{conflicting.order_id} is {status_labels.status_of(conflicting)} on this terminal",) if own else ()
    return ALREADY_QUEUED_ORDER_ON_TERMINAL.with_reason(f"{conflicting.order_id} is {conflicting.status}", *details)


async def requested_order(call: Call) -> Order:
    """Return the order of the path, of the caller's seller and mode. Raises `order_not_found`."""
    order = await store.find(call.tx, call.caller.seller_id, call.path)
    if order is None or bool(order.live) != call.caller.live:
        raise ORDER_NOT_FOUND.with_reason("unknown order" if order is None else "other mode")
    return order


def _new(call: Call) -> Order:
    request: OrderRequest = call.body
    caller, now_ms = call.caller, call.now_ms
    payment = request.transactions.payments[0]
    amount_minor = minor_units(payment.amount, CURRENCIES[caller.currency].decimals)
    expiration_time = request.expiration_time or call.settings.order_expiration_default
    seconds = seconds_of(expiration_time)
    assert amount_minor is not None, "the amount was validated"
    assert seconds is not None, "the duration was validated"
    return Order(
        seller_id=caller.seller_id,
        order_id=f"ORD{ids.ulid(now_ms)}",
        application_id=caller.application_id,
        live=int(caller.live),
        terminal_id=request.config.point.terminal_id,
        status=status.CREATED.status,
        status_detail=status.CREATED.detail,
        payment_status_detail=status.CREATED.payment_detail,
        version=1,
        currency=caller.currency,
        country=caller.country,
        amount=payment.amount,
        amount_minor=amount_minor,
        external_reference=request.external_reference,
        description=request.description,
        expiration_time=expiration_time,
        config=request.config.model_dump_json(exclude_none=True),
        integration_data=_json(_integration_data(call, request)),
        created_ms=now_ms,
        updated_ms=now_ms,
        expires_ms=now_ms + seconds * 1000,
    )


def _integration_data(call: Call, request: OrderRequest) -> dict[str, object]:
    data = request.integration_data
    echoed = data.model_dump(exclude_none=True) if data is not None else {}
    return {"application_id": str(call.caller.application_id), **echoed}


def _json(document: dict[str, object]) -> str:
    return msgspec.json.encode(document).decode()
