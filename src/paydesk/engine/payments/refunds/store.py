"""Refunds in the database: reserved on the order, claimed by a worker, ended once with their order's move.

The request and the worker share these functions; of two concurrent outcomes of a refund the first one counts.
"""

from __future__ import annotations

import msgspec

from paydesk.engine.orders import status, store
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status import Move
from paydesk.engine.orders.store import COLUMNS as ORDER_COLUMNS
from paydesk.engine.payments.acquirer import Approved
from paydesk.engine.payments.lifecycles import REFUNDS
from paydesk.engine.payments.refund import Refund, with_refund, without_refund
from paydesk.platform.storage.database import Transaction

PERIOD_MS = 90 * 86_400_000
"""Time after the payment in which it can be refunded."""

_FIELDS = Refund.__struct_fields__
COLUMNS = ", ".join(_FIELDS)

# Reserve $3 minor units of a processed order; NULL: all that is not refunded. The statement itself checks the remaining
# amount, the 90 days, and that an order with a tip is refunded in full.
RESERVE = f"""
UPDATE orders SET refunding_minor = refunding_minor + COALESCE(CAST($3 AS bigint), paid_minor - refunded_minor)
 WHERE seller_id = $1 AND order_id = $2 AND {status.REFUND_PART.guard} AND paid_ms >= $4
   AND COALESCE(CAST($3 AS bigint), paid_minor - refunded_minor) <= paid_minor - refunded_minor - refunding_minor
   AND (COALESCE(tip_minor, 0) = 0 OR COALESCE(CAST($3 AS bigint), paid_minor) = paid_minor)
RETURNING {ORDER_COLUMNS}"""

ADD = f"""
INSERT INTO refunds ({COLUMNS}, next_ms, claimed_until_ms)
VALUES ({", ".join(f"${place}" for place in range(1, len(_FIELDS) + 1))}, ${_FIELDS.index("created_ms") + 1},
        ${len(_FIELDS) + 1})"""

SHOW = "UPDATE orders SET refunds = $3 WHERE seller_id = $1 AND order_id = $2"

END = f"""
UPDATE refunds SET status = $3, reference_id = $4, ended_ms = $5, claimed_until_ms = 0
 WHERE seller_id = $1 AND refund_id = $2 AND {REFUNDS.open}"""

# The reservation is dropped without an event.
RELEASE = """
UPDATE orders SET refunding_minor = refunding_minor - $3, refunds = $4 WHERE seller_id = $1 AND order_id = $2"""

FIND = f"SELECT {COLUMNS} FROM refunds WHERE seller_id = $1 AND refund_id = $2"

# Locks the row for an operator, but not during an attempt ($3 is the machine's time).
LOCK_UNCLAIMED = f"""
UPDATE refunds SET claimed_until_ms = 0
 WHERE seller_id = $1 AND refund_id = $2 AND {REFUNDS.open} AND claimed_until_ms <= $3"""

COUNT_UNSENT = f"""
UPDATE refunds SET unsent = unsent + 1
 WHERE seller_id = $1 AND refund_id = $2 AND attempts = $3 AND {REFUNDS.open}"""


async def reserve(change: Change, order: Order, amount_minor: int | None) -> Order | None:
    """Reserve a part of the paid amount, or all that remains; None if that is not possible."""
    row = await change.tx.one(RESERVE, order.seller_id, order.order_id, amount_minor, change.now_ms - PERIOD_MS)
    return Order(*row) if row else None


def add(tx: Transaction, order: Order, refund: Refund, claimed_until_ms: int) -> None:
    """Insert the refund and add it to its order, whose row the transaction has locked."""
    tx.defer(ADD, *msgspec.structs.astuple(refund), claimed_until_ms)
    tx.defer(SHOW, order.seller_id, order.order_id, with_refund(order.refunds, refund))


async def confirm(change: Change, refund: Refund, approved: Approved) -> tuple[Order, Refund] | None:
    """End the refund as processed and refund its order, in part or in full. None if the refund has ended before."""
    refund = msgspec.structs.replace(refund, status="processed", reference_id=approved.reference_id or None)
    if not await _end(change, refund):
        return None
    order = await _locked_order(change.tx, refund)
    refunded_minor = order.refunded_minor + refund.amount_minor
    move = status.REFUND_WHOLE if refunded_minor == order.paid_minor else status.REFUND_PART
    return await _move(change, move, order, refund, refunded_minor), refund


async def fail(change: Change, refund: Refund) -> Order | None:
    """End as failed a refund whose request was already answered, with an event. None if it has ended before."""
    refund = msgspec.structs.replace(refund, status="failed")
    if not await _end(change, refund):
        return None
    order = await _locked_order(change.tx, refund)
    return await _move(change, status.REFUND_FAILED, order, refund, order.refunded_minor)


async def discard(change: Change, refund: Refund) -> None:
    """End as failed a refund whose request is not answered yet: the order is restored, without an event."""
    if await _end(change, msgspec.structs.replace(refund, status="failed")):
        order = await _locked_order(change.tx, refund)
        refunds = without_refund(order.refunds, refund)
        await change.tx.run(RELEASE, order.seller_id, order.order_id, refund.amount_minor, refunds)


async def count_unsent(tx: Transaction, refund: Refund) -> None:
    """Count the refund's latest attempt as not sent."""
    await tx.run(COUNT_UNSENT, refund.seller_id, refund.refund_id, refund.attempts)


async def find(tx: Transaction, seller_id: int, refund_id: str) -> Refund:
    """Return a refund that exists."""
    row = await tx.one(FIND, seller_id, refund_id)
    assert row is not None, "refunds are never deleted"
    return Refund(*row)


async def lock_unclaimed(tx: Transaction, seller_id: int, refund_id: str, wall_ms: int) -> bool:
    """Lock the open refund; False during an attempt, or if it has ended. `wall_ms` is the time that leases follow."""
    return bool(await tx.run(LOCK_UNCLAIMED, seller_id, refund_id, wall_ms))


async def _end(change: Change, refund: Refund) -> bool:
    values = refund.status, refund.reference_id, change.now_ms
    return bool(await change.tx.run(END, refund.seller_id, refund.refund_id, *values))


async def _locked_order(tx: Transaction, refund: Refund) -> Order:
    order = await store.lock(tx, refund.seller_id, refund.order_id)
    assert order is not None, "a refund has an order"
    return order


async def _move(change: Change, move: Move, order: Order, refund: Refund, refunded_minor: int) -> Order:
    moved = await store.move(
        change,
        move,
        order,
        refunded_minor=refunded_minor,
        refunding_minor=order.refunding_minor - refund.amount_minor,
        refunds=with_refund(order.refunds, refund),
    )
    assert moved is not None, "an order with a reserved amount is processed"
    return moved
