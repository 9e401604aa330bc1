"""A terminal's one slot: an order or a print action holds it. Both are created with the terminal's row locked."""

from __future__ import annotations

from paydesk.core.errors import Refusal
from paydesk.engine.orders import status, store
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.errors import ALREADY_QUEUED_ORDER_ON_TERMINAL, CANCEL_AT_TERMINAL
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status_labels import Labels
from paydesk.engine.terminals.print_actions import store as action_store
from paydesk.engine.terminals.print_actions.action import PrintAction

WAIT = "retry with the same X-Idempotency-Key when it has ended"
OUTCOME_UNKNOWN = "its outcome is unknown, and it will end as processed or failed"


async def expire_order(change: Change, seller_id: int, terminal_id: str, application_id: int) -> None:
    """Expire the terminal's live order if it is overdue. Raises `already_queued_order_on_terminal` if it is not."""
    conflicting = await store.live_on_terminal(change.tx, seller_id, terminal_id)
    if conflicting is None:
        return
    current = await store.expire_overdue(change, conflicting)
    if current.status in status.LIVE:
        raise _queued_order(conflicting, application_id, change.labels)


async def expire_action(change: Change, seller_id: int, action_id: str | None, application_id: int) -> None:
    """Expire the terminal's open print action if it is overdue; `action_id` is that of the terminal's locked row.

    Raises `already_queued_order_on_terminal` if it is not overdue.
    """
    action = None if action_id is None else await action_store.find(change.tx, seller_id, action_id)
    if action is None:
        return
    action = await action_store.expire_overdue(change.tx, action, change.now_ms)
    if action.is_open:
        found = f"the print action {action.action_id} is {action.status} on this terminal"
        own = action.application_id == application_id
        detail = f"{found}; {_advice_on_action(action)}" if own else WAIT
        raise ALREADY_QUEUED_ORDER_ON_TERMINAL.with_reason(found, detail)


def _queued_order(conflicting: Order, application_id: int, labels: Labels) -> Refusal:
    """Return the refusal; only the application of the conflicting order gets its id."""
    order_id, own = conflicting.order_id, conflicting.application_id == application_id
    found = f"{order_id} is {labels.of(conflicting)} on this terminal"
    detail = f"{found}; {_advice_on_order(conflicting)}" if own else WAIT
    return ALREADY_QUEUED_ORDER_ON_TERMINAL.with_reason(f"{order_id} is {conflicting.status}", detail)


def _advice_on_order(order: Order) -> str:
    if order.state == status.CHECK_ON_TERMINAL:
        return f"{OUTCOME_UNKNOWN}; {WAIT}"
    header = f" and {CANCEL_AT_TERMINAL}" if order.status == "at_terminal" else ""
    return f"{WAIT}, or cancel it with POST /v1/orders/{order.order_id}/cancel{header}"


def _advice_on_action(action: PrintAction) -> str:
    cancel = f", or cancel it with POST /terminals/v1/actions/{action.action_id}/cancel"
    return f"{WAIT}{cancel if action.status == 'created' else ''}"
