"""How an operator ends what the acquirer has not said for long: an unknown outcome, a reversal without an answer."""

from __future__ import annotations

from typing import Literal

from paydesk.core.clock import rfc3339
from paydesk.orders import status
from paydesk.orders.order import Order
from paydesk.payments import inquiry_store, outcomes, reversal_store
from paydesk.payments.errors import CANNOT_RESOLVE_ORDER, CANNOT_RESOLVE_REVERSAL
from paydesk.payments.outcomes import Paid
from paydesk.payments.reversal_store import Ending, Reversal, Status
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


async def resolve_reversal(
    tx: Transaction, order: Order, reversal_id: str, ending: Ending, now_ms: int, *, wall_ms: int, after_seconds: int
) -> None:
    """End a reversal of the order, which the transaction holds: nobody is asked any more.

    `wall_ms` is the machine's time, which claims go by. Raises `CANNOT_RESOLVE_REVERSAL`.
    """
    found = await reversal_store.find(tx, order.seller_id, reversal_id)
    assert found is not None, "reversals are never deleted"
    reversal, standing = found
    fault = _fault(order, reversal, standing, ending, now_ms, from_ms=reversal.created_ms + after_seconds * 1000)
    if fault is not None:
        raise CANNOT_RESOLVE_REVERSAL.with_reason(f"{standing}, the order is {order.state}", fault)
    if not await reversal_store.resolve(tx, reversal, ending, now_ms, wall_ms):
        raise CANNOT_RESOLVE_REVERSAL.with_reason(
            "is claimed", "the acquirer is being asked at this moment; try again in a minute"
        )


def _fault(
    order: Order, reversal: Reversal, standing: Status, ending: Ending, now_ms: int, *, from_ms: int
) -> str | None:
    """Why the reversal is not to be ended like this, or None."""
    if standing != "pending":
        return f"the reversal is {standing}"
    if now_ms < from_ms:
        return f"the acquirer may still confirm it; an operator may end it from {rfc3339(from_ms)}"
    if order.status in status.LIVE:
        return "nobody knows yet whether it is the order's payment; end the order first"
    if ending == "reversed" and order.paid_ms is not None and reversal.reference_id in ("", order.reference_id):
        return "nothing tells it from the order's payment, which counts; it can end as not_found alone"
    if ending == "not_found" and reversal.confirmed == "approved":
        return "the acquirer says that it is approved; it can end as reversed alone"
    return None


async def _refuse(tx: Transaction, order: Order, outcome: Outcome, now_ms: int, after_seconds: int) -> None:
    if order.state != status.CHECK_ON_TERMINAL:
        raise CANNOT_RESOLVE_ORDER.with_reason(f"the order is {order.state}", _known(order))
    # Nothing moves an order while its outcome is unknown: it was last changed when that began.
    from_ms = order.updated_ms + after_seconds * 1000
    if now_ms < from_ms:
        raise CANNOT_RESOLVE_ORDER.with_reason(
            "too early", f"the acquirer may still say it; an operator may end it from {rfc3339(from_ms)}"
        )
    if outcome == "approved" and await inquiry_store.standing(tx, order) == "reversing":
        raise CANNOT_RESOLVE_ORDER.with_reason(
            "is being undone", "the acquirer is being told that the payment is void: it can end as declined alone"
        )


def _known(order: Order) -> str:
    if order.status in status.LIVE:
        return f"the order is {order.status}; its outcome is not in doubt yet"
    return f"the order is {order.status}; its outcome is known"
