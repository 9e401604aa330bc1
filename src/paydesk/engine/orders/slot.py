"""A terminal's one slot: an order or a print action holds it. Both are created with the terminal's row locked."""

from __future__ import annotations

from paydesk.engine.orders import status, store
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.errors import ALREADY_QUEUED_ORDER_ON_TERMINAL, CANCEL_AT_TERMINAL
from paydesk.engine.orders.order import Order
from paydesk.engine.terminals.print_actions import store as action_store

WAIT = "retry with the same X-Idempotency-Key when it has ended"
OUTCOME_UNKNOWN = "its outcome is unknown, and it will end as processed or failed"


async def expire_order(change: Change, seller_id: int, terminal_id: str, application_id: int) -> None:
    """Expire the terminal's live order if it is overdue. Raises `already_queued_order_on_terminal` if it is not."""
    conflicting = await store.live_on_terminal(change.tx, seller_id, terminal_id)
    if conflicting is None:
        return
    current = await store.expire_overdue(change, conflicting)
    if current.status in status.LIVE:
        order_id, own = conflicting.order_id, conflicting.application_id == application_id
        detail = f"{order_id} is {change.labels.of(conflicting)} on this terminal; {_advice(conflicting)}"
        # Only the application of the conflicting order gets its id.
        raise ALREADY_QUEUED_ORDER_ON_TERMINAL.with_reason(
            f"{order_id} is {conflicting.status}", detail if own else WAIT
        )


async def expire_action(change: Change, seller_id: int, action_id: str | None, application_id: int) -> None:
    """Expire the terminal's open print action if it is overdue; `action_id` is that of the terminal's locked row.

    Raises `already_queued_order_on_terminal` if it is not overdue.
    """
    action = None if action_id is None else await action_store.find(change.tx, seller_id, action_id)
    if action is None:
        return
    action = await action_store.expire_overdue(change.tx, action, change.now_ms)
    if action.is_open:
        reason = f"the print action {action.action_id} is {action.status} on this terminal"
        cancel = f", or cancel it with POST /terminals/v1/actions/{action.action_id}/cancel"
        detail = f"{reason}; {WAIT}{cancel if action.status == 'created' else ''}"
        own = action.application_id == application_id
        raise ALREADY_QUEUED_ORDER_ON_TERMINAL.with_reason(reason, detail if own else WAIT)


def _advice(order: Order) -> str:
    if order.state == status.CHECK_ON_TERMINAL:
        return f"{OUTCOME_UNKNOWN}; {WAIT}"
    header = f" and {CANCEL_AT_TERMINAL}" if order.status == "at_terminal" else ""
    return f"{WAIT}, or cancel it with POST /v1/orders/{order.order_id}/cancel{header}"
