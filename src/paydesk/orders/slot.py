"""A terminal's one slot: an order or a print action holds it. Both are created with the terminal's row locked."""

from __future__ import annotations

from paydesk.core.errors import Refusal
from paydesk.orders import status, store
from paydesk.orders.change import Change
from paydesk.orders.errors import ALREADY_QUEUED_ORDER_ON_TERMINAL
from paydesk.orders.order import Order
from paydesk.orders.status_labels import Labels
from paydesk.terminals import action_store


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
        detail = f"the print action {action.action_id} is {action.status} on this terminal"
        own = action.application_id == application_id
        raise ALREADY_QUEUED_ORDER_ON_TERMINAL.with_reason(detail, *((detail,) if own else ()))


def _queued_order(conflicting: Order, application_id: int, labels: Labels) -> Refusal:
    own = conflicting.application_id == application_id
    details = (f"{conflicting.order_id} is {labels.of(conflicting)} on this terminal",) if own else ()
    return ALREADY_QUEUED_ORDER_ON_TERMINAL.with_reason(f"{conflicting.order_id} is {conflicting.status}", *details)
