"""Inquiries, reversals and refunds: their lists, and how an operator resolves an order or a reversal."""

from __future__ import annotations

from typing import Any

from paydesk.core.clock import SystemClock, rfc3339
from paydesk.operation import Answer, Call
from paydesk.operators import audit, lists
from paydesk.operators.history import owner_of
from paydesk.operators.schemas import ResolveRequest, ResolveReversalRequest
from paydesk.orders import store as orders
from paydesk.orders.change import change_of
from paydesk.orders.order import Order
from paydesk.orders.presentation import order_document
from paydesk.payments import lifecycles, resolving
from paydesk.payments.errors import REVERSAL_NOT_FOUND
from paydesk.storage.database import Row, Transaction

REVERSAL_STATUSES, REFUND_STATUSES = lifecycles.REVERSALS.names, lifecycles.REFUNDS.names
WALL = SystemClock()
"""The system clock, which leases of jobs use."""

# An attempt in progress is not counted: it has not failed yet.
_REVERSAL = f"""
seller_id, reversal_id, order_id, live, amount_minor, reference_id, confirmed, status,
attempts - CASE WHEN {lifecycles.PENDING} AND claimed_until_ms > 0 THEN 1 ELSE 0 END,
next_ms, created_ms, ended_ms"""

_INQUIRY = f"""
seller_id, order_id, live, reason, reversing_ms, outcome,
attempts - CASE WHEN {lifecycles.INQUIRIES.open} AND claimed_until_ms > 0 THEN 1 ELSE 0 END,
next_ms, created_ms, ended_ms"""

REVERSALS = f"""
SELECT {_REVERSAL} FROM reversals
WHERE (seller_id, reversal_id) > ($1, $2) AND seller_id <= $4 AND ($5 = '' OR status = $5)
ORDER BY seller_id, reversal_id LIMIT $3"""

REVERSAL = f"SELECT {_REVERSAL} FROM reversals WHERE seller_id = $1 AND reversal_id = $2"

OWNER = """
SELECT sellers.seller_id, reversals.order_id FROM sellers
  JOIN reversals ON reversals.seller_id = sellers.seller_id AND reversals.reversal_id = $1"""

INQUIRIES = f"""
SELECT {_INQUIRY} FROM inquiries
WHERE (seller_id, order_id) > ($1, $2) AND seller_id <= $4 AND ($5 = 0 OR {lifecycles.INQUIRIES.open})
ORDER BY seller_id, order_id LIMIT $3"""

REFUNDS = f"""
SELECT seller_id, refund_id, order_id, live, amount, status,
attempts - CASE WHEN {lifecycles.PROCESSING} AND claimed_until_ms > 0 THEN 1 ELSE 0 END,
next_ms, created_ms, ended_ms FROM refunds
WHERE (seller_id, refund_id) > ($1, $2) AND seller_id <= $4 AND ($5 = '' OR status = $5)
ORDER BY seller_id, refund_id LIMIT $3"""


async def find_reversals(call: Call) -> Answer:
    """List the reversals of late approvals."""
    status = lists.choice(call.query, "status", REVERSAL_STATUSES)
    first, last = lists.sellers(call.query)
    return await lists.page(call.tx, call, REVERSALS, (first, ""), _reversal, last, status)


async def find_refunds(call: Call) -> Answer:
    """List the refunds with the number of attempts at the acquirer."""
    status = lists.choice(call.query, "status", REFUND_STATUSES)
    first, last = lists.sellers(call.query)
    return await lists.page(call.tx, call, REFUNDS, (first, ""), _refund, last, status)


async def find_inquiries(call: Call) -> Answer:
    """List the inquiries about orders whose outcome is or was unknown."""
    is_open = lists.choice(call.query, "open", ("true", "false")) == "true"
    first, last = lists.sellers(call.query)
    return await lists.page(call.tx, call, INQUIRIES, (first, ""), _inquiry, last, int(is_open))


async def resolve(call: Call) -> Answer:
    """Set the outcome of an order whose outcome is unknown; the audit trail records the operator and the reason."""
    audit.require_change(call)
    body: ResolveRequest = call.body
    change, before = change_of(call), await _locked(call.tx, call.path)
    resolved = await resolving.resolve(
        change,
        before,
        body.outcome,
        after_seconds=call.settings.resolve_after_seconds,
        has_acquirer=call.state["acquirers"].of(live=bool(before.live)) is not None,
    )
    after = {**_state(resolved), "outcome": body.outcome, "reason": body.reason}
    await audit.record(call, call.tx, "orders.resolve", resolved.order_id, before=_state(before), after=after)
    return Answer(200, order_document(resolved, change.labels))


async def resolve_reversal(call: Call) -> Answer:
    """Set the outcome of a reversal that the acquirer does not confirm; the audit trail records the reason."""
    audit.require_change(call)
    body: ResolveReversalRequest = call.body
    row = await call.tx.one(OWNER, call.path)
    if row is None:
        raise REVERSAL_NOT_FOUND.with_reason("no seller has this reversal")
    seller_id, order_id = row
    order = await orders.lock(call.tx, seller_id, order_id)
    assert order is not None, "a reversal has an order"
    await resolving.resolve_reversal(
        change_of(call),
        order,
        call.path,
        body.outcome,
        wall_ms=WALL.now_ms(),
        after_seconds=call.settings.resolve_after_seconds,
    )
    after = {"status": body.outcome, "reason": body.reason}
    await audit.record(
        call, call.tx, "reversals.resolve", call.path, before={"status": lifecycles.PENDING.name}, after=after
    )
    ended = await call.tx.one(REVERSAL, seller_id, call.path)
    assert ended is not None, "it was resolved in this transaction"
    return Answer(200, _reversal(ended))


async def _locked(tx: Transaction, order_id: str) -> Order:
    order = await orders.lock(tx, await owner_of(tx, order_id), order_id)
    assert order is not None, "its owner was found in this transaction"
    return order


def _state(order: Order) -> dict[str, Any]:
    return {"status": order.status, "status_detail": order.status_detail, "version": order.version}


def _reversal(row: Row) -> dict[str, Any]:
    (seller_id, reversal_id, order_id, live, amount_minor, reference_id, confirmed, status) = row[:8]
    document = {
        "id": reversal_id,
        "seller_id": seller_id,
        "order_id": order_id,
        "live_mode": bool(live),
        "amount_minor": amount_minor,
        "reference_id": reference_id,
        "status": status,
        **({"confirmed": confirmed} if confirmed is not None else {}),
    }
    return document | _times(row[8:])


def _inquiry(row: Row) -> dict[str, Any]:
    seller_id, order_id, live, reason, reversing_ms, outcome = row[:6]
    document = {
        "seller_id": seller_id,
        "order_id": order_id,
        "live_mode": bool(live),
        "reason": reason,
        "status": lifecycles.inquiry_status(reversing_ms, outcome),
        **({"outcome": outcome} if outcome is not None else {}),
    }
    return document | _times(row[6:])


def _refund(row: Row) -> dict[str, Any]:
    seller_id, refund_id, order_id, live, amount, status = row[:6]
    document = {
        "id": refund_id,
        "seller_id": seller_id,
        "order_id": order_id,
        "live_mode": bool(live),
        "amount": amount,
        "status": status,
    }
    return document | _times(row[6:])


def _times(row: Row) -> dict[str, Any]:
    """Return the number of attempts, the creation date, and the date of the next attempt or of the end."""
    attempts, next_ms, created_ms, ended_ms = row
    times = {"attempts": attempts, "created_date": rfc3339(created_ms)}
    return times | ({"next_date": rfc3339(next_ms)} if ended_ms is None else {"ended_date": rfc3339(ended_ms)})
