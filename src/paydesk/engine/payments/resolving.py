"""Resolve what the acquirer has not answered, for an operator: an unknown outcome, or a pending reversal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from paydesk.core.clock import rfc3339
from paydesk.engine.orders import status
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import confirmation_store, inquiry_store, outcomes, reversal_store, terms
from paydesk.engine.payments.acquirer import Approved
from paydesk.engine.payments.acquirers import CheckedAcquirer
from paydesk.engine.payments.capabilities import NO_CAPABILITIES
from paydesk.engine.payments.errors import CANNOT_RESOLVE_ORDER, CANNOT_RESOLVE_REVERSAL
from paydesk.engine.payments.lifecycles import PENDING, REVERSING
from paydesk.engine.payments.outcomes import Paid
from paydesk.engine.payments.reversal_store import Ending, Reversal

if TYPE_CHECKING:
    from paydesk.platform.settings import Settings

Outcome = Literal["approved", "declined"]


async def resolve(
    change: Change, order: Order, outcome: Outcome, paid: Paid, *, settings: Settings, acquirer: CheckedAcquirer | None
) -> Order:
    """Set the outcome of the order, whose row the transaction has locked. Raises `CANNOT_RESOLVE_ORDER`.

    `paid` is what the operator knows of an approval. After a decline the inquiry continues if there is an `acquirer`,
    so that an approval that it reports later is reversed.
    """
    if order.state != status.CHECK_ON_TERMINAL:
        certainty = "its outcome is not in doubt yet" if order.status in status.LIVE else "its outcome is known"
        raise CANNOT_RESOLVE_ORDER.with_reason(
            f"the order is {order.state}", f"the order is {order.status}; {certainty}"
        )
    # While its outcome is unknown the order does not change, so its last change is when that state began.
    from_ms = order.updated_ms + settings.resolve_after_seconds * 1000
    if change.now_ms < from_ms:
        raise CANNOT_RESOLVE_ORDER.with_reason(
            "too early", f"the acquirer may still answer; an operator can resolve the order from {rfc3339(from_ms)}"
        )
    if outcome == "approved" and await inquiry_store.status_of(change.tx, order) == REVERSING.name:
        raise CANNOT_RESOLVE_ORDER.with_reason(
            "is being reversed", "the payment is being reversed at the acquirer; the order can only end as declined"
        )
    if outcome == "approved":
        known = await terms.find(change.tx, order)
        paid = replace(paid, tip_minor=known.requested_tip_minor)
        resolved = await outcomes.approve(change, order, paid, by="operator")
        if resolved is not None and known.needs_confirmation:
            await _confirm(change, resolved, paid, settings, acquirer)
    else:
        resolved = await outcomes.decline(change, order, by="operator", detail="processing_error", origin="service")
    assert resolved is not None, "the row is locked and its outcome was checked to be unknown"
    if outcome == "approved" or acquirer is None:
        await inquiry_store.end(change, resolved, "operator")
    return resolved


async def _confirm(
    change: Change, order: Order, paid: Paid, settings: Settings, acquirer: CheckedAcquirer | None
) -> None:
    """Begin to confirm the approval that an operator knows of, also where the acquirer's answer never came."""
    assert order.paid_minor is not None, "the order is approved"
    approval = await confirmation_store.find(change.tx, order)
    if approval is not None and approval.amount_minor != order.paid_minor:
        raise CANNOT_RESOLVE_ORDER.with_reason(
            "another amount", "the acquirer has approved another amount; the order can only end as declined"
        )
    if not await confirmation_store.begin_confirming(change, order, undone=True):
        approved = Approved(paid.reference_id or "", order.paid_minor, paid.authorization_code)
        capabilities = NO_CAPABILITIES if acquirer is None else acquirer.capabilities
        await confirmation_store.add(change, order, "confirming", approved, paid, capabilities, settings)


async def resolve_reversal(
    change: Change, order: Order, reversal_id: str, ending: Ending, *, wall_ms: int, after_seconds: int
) -> None:
    """End a reversal of the order, whose row the transaction has locked. Raises `CANNOT_RESOLVE_REVERSAL`.

    `wall_ms` is the machine's time, which leases follow.
    """
    row = await reversal_store.find(change.tx, order.seller_id, reversal_id)
    assert row is not None, "reversals are never deleted"
    reversal, current = row
    fault = _reversal_fault(
        order, reversal, current, ending, change.now_ms, from_ms=reversal.created_ms + after_seconds * 1000
    )
    if fault is not None:
        raise CANNOT_RESOLVE_REVERSAL.with_reason(f"{current}, the order is {order.state}", fault)
    if not await reversal_store.resolve(change, reversal, ending, wall_ms):
        raise CANNOT_RESOLVE_REVERSAL.with_reason(
            "is claimed", "an attempt at the acquirer is in progress; retry in a minute"
        )


def _reversal_fault(
    order: Order, reversal: Reversal, current: str, ending: Ending, now_ms: int, *, from_ms: int
) -> str | None:
    """Return why the reversal cannot end as `ending`, or None."""
    if current != PENDING.name:
        return f"the reversal is {current}"
    if now_ms < from_ms:
        return f"the acquirer may still confirm it; an operator can resolve it from {rfc3339(from_ms)}"
    if order.status in status.LIVE:
        return "the approval may still be the order's payment; resolve the order first"
    if ending == "reversed" and order.paid_ms is not None and reversal.reference_id in ("", order.reference_id):
        return "it cannot be distinguished from the order's payment; it can only end as not_found"
    if ending == "not_found" and reversal.confirmed == "approved":
        return "the acquirer has confirmed the approval; it can only end as reversed"
    return None
