"""What an application does with orders: create, get, search, cancel."""

from __future__ import annotations

import msgspec

from paydesk.core import ids
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
from paydesk.orders.presentation import shown
from paydesk.orders.schemas import OrderRequest
from paydesk.terminals import store as terminals

TAKES_ORDERS = ("PDV", "SELF_SERVICE")
AT_TERMINAL_HEADER = "x-allow-cancelable-status"
AT_TERMINAL = "X-Allow-Cancelable-Status: at_terminal"


def terminal_of_new(call: Call) -> tuple[str, ...]:
    """What creating an order conflict_keys: its terminal, and what stands there."""
    return (f"terminal:{call.body.config.point.terminal_id}",)


def order_of(call: Call) -> tuple[str, ...]:
    """What is done to one order conflict_keys it alone."""
    return (f"order:{call.path}",)


async def create(call: Call) -> Handled:
    """A new order for a terminal: at most one live order there, and none on a terminal that takes none."""
    tx, caller, order = call.tx, call.caller, _new(call)
    # The row stays locked until the commit: the terminal's mode can't change under an order that is being made.
    terminal = await terminals.for_order(tx, caller.seller_id, order.terminal_id)
    if terminal is None or terminal.live != order.live:
        raise FORBIDDEN_CHECKING_TERMINAL_OWNER.with_reason("unknown terminal" if terminal is None else "other mode")
    if terminal.operating_mode not in TAKES_ORDERS:
        raise TERMINAL_NOT_IN_PDV_MODE.with_reason(f"mode is {terminal.operating_mode}")
    if not await store.create(tx, order, call.now_ms):
        await _clear_the_way(call, order.terminal_id)
        created = await store.create(tx, order, call.now_ms)
        assert created, "the terminal's row is locked, so nothing new can stand in the way"
    return Answer(201, shown(order))


async def _clear_the_way(call: Call, terminal_id: str) -> None:
    """Expire the order that stands on the terminal where it is overdue; otherwise raise a refusal that names it."""
    standing = await store.live_on_terminal(call.tx, call.caller.seller_id, terminal_id)
    if standing is None:
        # It ended since the insert met it: a cancel, the expiry and a result lock the order, not its terminal.
        return
    cleared = await store.expire_overdue(call.tx, standing, call.now_ms)
    if cleared.status in status.LIVE:
        raise _in_the_way(call, standing)


async def get(call: Call) -> Handled:
    """The order as it is."""
    return Answer(200, shown(await found(call)))


async def search(call: Call) -> Handled:
    """The seller's orders that a query asks for, a page at a time, and how many there are in all."""
    wanted = searching.read(call.query_string, call.now_ms)
    seller_id, live = call.caller.seller_id, call.caller.live
    total = await search_store.count(call.tx, seller_id, wanted, live=live)
    found = await search_store.page(call.tx, seller_id, wanted, live=live) if total > wanted.offset else []
    paging = {
        "total": total,
        "total_pages": -(-total // wanted.limit),
        "offset": wanted.offset,
        "limit": wanted.limit,
    }
    # Existing clients take these for strings.
    return Answer(200, {"data": list(map(shown, found)), "paging": {name: str(paging[name]) for name in paging}})


async def cancel(call: Call) -> Handled:
    """Cancel an order: at once while it is created, by asking the terminal, with the extra header, once it is there."""
    order = await store.expire_overdue(call.tx, await found(call), call.now_ms)
    canceled = await store.move(call.tx, status.CANCEL, order, call.now_ms)
    if canceled is not None:
        return Answer(200, shown(canceled))
    if call.headers.get(AT_TERMINAL_HEADER) == "at_terminal":
        asked = await _ask_terminal(call, order)
        if asked is not None:
            return Answer(202, shown(asked))
    # Returned, not raised: an order that was overdue is expired now, and stays so.
    return _not_canceled(await found(call))


async def _ask_terminal(call: Call, order: Order) -> Order | None:
    """The order, whose terminal is asked to give it back; after the grant the wish is recorded and can't win.

    None where there is nothing to ask: the order is not at a terminal, or its outcome is unknown.
    """
    asked = await store.move(call.tx, status.REQUEST_CANCEL, order, call.now_ms, cancel_requested_ms=call.now_ms)
    return asked or await store.record_cancel_request(call.tx, order, call.now_ms)


def _not_canceled(order: Order) -> Refusal:
    if order.status == "canceled":
        return ORDER_ALREADY_CANCELED.with_reason(f"is {order.status_detail}")
    return CANNOT_CANCEL_ORDER.with_reason(
        f"is {order.status}", f"the order is {status_labels.status_of(order)}{_advice(order)}"
    )


def _advice(order: Order) -> str:
    if order.state == status.CHECK_ON_TERMINAL:
        return "; its outcome is unknown, and it ends as processed or failed"
    return f"; send {AT_TERMINAL} to ask its terminal" if order.status == "at_terminal" else ""


def _in_the_way(call: Call, standing: Order) -> Refusal:
    own = standing.application_id == call.caller.application_id
    details = (f"{standing.order_id} is {status_labels.status_of(standing)} on this terminal",) if own else ()
    return ALREADY_QUEUED_ORDER_ON_TERMINAL.with_reason(f"{standing.order_id} is {standing.status}", *details)


async def found(call: Call) -> Order:
    """The order of the path, which must be the caller's own and of its kind. Raises `order_not_found`."""
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
    given = request.integration_data
    echoed = given.model_dump(exclude_none=True) if given is not None else {}
    return {"application_id": str(call.caller.application_id), **echoed}


def _json(document: dict[str, object]) -> str:
    return msgspec.json.encode(document).decode()
