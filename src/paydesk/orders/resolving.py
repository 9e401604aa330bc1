"""How an operator ends an order whose outcome nobody knows, where the acquirer could not say it for long."""

from __future__ import annotations

from typing import Literal

from paydesk.clock import rfc3339
from paydesk.orders import inquiry_store, outcomes, status
from paydesk.orders.errors import CANNOT_RESOLVE_ORDER
from paydesk.orders.outcomes import Paid
from paydesk.orders.store import Order
from paydesk.storage.database import Transaction

Outcome = Literal["approved", "declined"]


async def resolve(
    tx: Transaction, order: Order, outcome: Outcome, now_ms: int, *, after_seconds: int, can_ask: bool
) -> Order:
    """End the order, which the transaction holds. Raises `CANNOT_RESOLVE_ORDER`.

    `can_ask`: an acquirer is there to be asked. Of a declined one it is asked on, so that an approval that it tells of
    later is given back.
    """
    await _refuse(tx, order, outcome, now_ms, after_seconds)
    if outcome == "approved":
        resolved = await outcomes.approve(tx, order, now_ms, Paid(), by="operator")
    else:
        resolved = await outcomes.decline(tx, order, now_ms, by="operator", detail="processing_error", origin="service")
    assert resolved is not None, "the row is held and its outcome was unknown a moment ago"
    if outcome == "approved" or not can_ask:
        await inquiry_store.end(tx, resolved, "operator", now_ms)
    return resolved


async def _refuse(tx: Transaction, order: Order, outcome: Outcome, now_ms: int, after_seconds: int) -> None:
    if order.state != status.CHECK_ON_TERMINAL:
        raise CANNOT_RESOLVE_ORDER.because(f"the order is {order.state}", _known(order))
    # Nothing moves an order while its outcome is unknown: it was last changed when that began.
    from_ms = order.updated_ms + after_seconds * 1000
    if now_ms < from_ms:
        raise CANNOT_RESOLVE_ORDER.because(
            "too early", f"the acquirer may still say it; an operator may end it from {rfc3339(from_ms)}"
        )
    if outcome == "approved" and await inquiry_store.standing(tx, order) == "reversing":
        raise CANNOT_RESOLVE_ORDER.because(
            "is being undone", "the acquirer is being told that the payment is void: it can end as declined alone"
        )


def _known(order: Order) -> str:
    if order.status in status.LIVE:
        return f"the order is {order.status}; its outcome is not in doubt yet"
    return f"the order is {order.status}; its outcome is known"
