"""Create, get, search and cancel orders."""

from __future__ import annotations

import re

from paydesk.engine.orders import slot, status, store
from paydesk.engine.orders.change import change_of
from paydesk.engine.orders.errors import (
    CANCEL_AT_TERMINAL,
    CANNOT_CANCEL_ORDER,
    FORBIDDEN_CHECKING_TERMINAL_OWNER,
    ORDER_ALREADY_CANCELED,
    ORDER_NOT_FOUND,
    TERMINAL_NOT_IN_PDV_MODE,
)
from paydesk.engine.orders.order import Order, new_order
from paydesk.engine.orders.presentation import OrderPage, OrderPaging, order_document
from paydesk.engine.orders.routing import Routing
from paydesk.engine.orders.search import query as searching
from paydesk.engine.orders.search import store as search_store
from paydesk.engine.orders.status_labels import Labels
from paydesk.engine.terminals import modes
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals.schemas import TERMINAL_ID_PATTERN
from paydesk.platform.operation import Answer, Call, Handled
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.conflict_keys import ConflictKey

_TERMINAL_ID = re.compile(TERMINAL_ID_PATTERN)
AT_TERMINAL_HEADER = "x-allow-cancelable-status"


def canonical_cancelable(header: str) -> str:
    """Return `at_terminal` if it is in the header's list of statuses, else "": all else there has no effect."""
    return "at_terminal" if "at_terminal" in (name.strip(" \t").lower() for name in header.split(",")) else ""


def terminal_key(call: Call) -> tuple[ConflictKey, ...]:
    """Return the conflict key of creating an order: its terminal."""
    return (conflict_keys.terminal(call.body.config.point.terminal_id),)


def order_key(call: Call) -> tuple[ConflictKey, ...]:
    """Return the conflict key of an operation on one order."""
    return (conflict_keys.order(call.path),)


def _requested(call: Call) -> Order:
    routing = call.shared.objects[Routing]
    return new_order(call.body, call.caller, call.now_ms, call.settings.order_expiration_default, routing)


async def create_on_free_terminal(call: Call) -> Handled:
    """Create an order, as `create` does, for a terminal that is free.

    What cannot be a terminal's id is looked up first, as `create` does: it may be a secret, and what a database rolls
    back stays in its files for a while.
    """
    if _TERMINAL_ID.fullmatch(call.body.config.point.terminal_id) is None:
        return await create(call)
    change, order = change_of(call), _requested(call)
    store.create_on_free_terminal(change, order)
    return Answer(201, order_document(order, change.labels))


async def create(call: Call) -> Handled:
    """Create an order for a terminal. It must accept orders, and have neither a live order nor a print action."""
    change, order = change_of(call), _requested(call)
    # The row stays locked until the commit, so the terminal's mode cannot change meanwhile.
    terminal = await terminals.for_order(call.tx, order.seller_id, order.terminal_id)
    if terminal is None or terminal.live != order.live:
        raise modes.not_usable(FORBIDDEN_CHECKING_TERMINAL_OWNER, terminal, order.terminal_id)
    if terminal.operating_mode not in modes.ORDER_MODES:
        raise modes.takes_no_orders(TERMINAL_NOT_IN_PDV_MODE, terminal)
    if terminal.action_id is not None:
        await slot.expire_action(change, order.seller_id, terminal.action_id, order.application_id)
    if not await store.create(change, order):
        # Without a live order now, it has ended since: a cancel, the expiry and a result lock the order alone.
        await slot.expire_order(change, order.seller_id, order.terminal_id, order.application_id)
        created = await store.create(change, order)
        assert created, "the terminal row is locked, so no conflicting order can appear"
    return Answer(201, order_document(order, change.labels))


async def get(call: Call) -> Handled:
    """Retrieve an order."""
    return Answer(200, order_document(await requested_order(call), call.shared.objects[Labels]))


async def search(call: Call) -> Handled:
    """Search orders: return a page of the seller's orders that match the query, and their total number."""
    labels = call.shared.objects[Labels]
    query = searching.read(call.query_string, call.now_ms, labels)
    total, page = await search_store.run(call.tx, call.caller.seller_id, query, live=call.caller.live)
    total_pages = -(-total // query.limit)
    paging = OrderPaging(str(total), str(total_pages), str(query.offset), str(query.limit))
    return Answer(200, OrderPage([order_document(order, labels) for order in page], paging))


async def cancel(call: Call) -> Handled:
    """Cancel an order: a created one at once; with the extra header its terminal is requested to release it."""
    change = change_of(call)
    order = await store.expire_overdue(change, await requested_order(call))
    canceled = await store.move(change, status.CANCEL, order)
    if canceled is not None:
        return Answer(200, order_document(canceled, change.labels))
    if canonical_cancelable(call.headers.get(AT_TERMINAL_HEADER, "")):
        requested = await store.move(change, status.REQUEST_CANCEL, order, cancel_requested_ms=change.now_ms)
        # After authorization is permitted the request has no effect.
        requested = requested or await store.record_cancel_request(change, order)
        if requested is not None:
            return Answer(202, order_document(requested, change.labels))
    order = await requested_order(call)
    # Returned, not raised, so that an expiry above is committed.
    if order.status == "canceled":
        return ORDER_ALREADY_CANCELED.with_reason(
            f"is {order.status_detail}", f"its status_detail is {order.status_detail}; no further cancel is needed"
        )
    shown = f"the order is {change.labels.of(order)}{_advice(order)}"
    return CANNOT_CANCEL_ORDER.with_reason(f"is {order.status}", shown)


def _advice(order: Order) -> str:
    if order.state == status.CHECK_ON_TERMINAL:
        return f"; {slot.OUTCOME_UNKNOWN}"
    if order.status == "at_terminal":
        return f"; send {CANCEL_AT_TERMINAL} to request a cancel at its terminal"
    if order.status == "processed":
        return f"; refund it with POST /v1/orders/{order.order_id}/refund"
    return "; no cancel is needed"


async def requested_order(call: Call) -> Order:
    """Return the order of the path, of the caller's seller and mode. Raises `order_not_found`."""
    order = await store.find(call.tx, call.caller.seller_id, call.path)
    if order is None or bool(order.live) != call.caller.live:
        reason = "unknown order" if order is None else "other mode"
        raise ORDER_NOT_FOUND.with_reason(
            reason, "check the id, and that the access token is for the order's seller and mode (test or live)"
        )
    return order
