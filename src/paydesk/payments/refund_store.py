"""The SQL of refunds: reserved on the order, claimed by a worker, ended once. What is left is decided by the UPDATE."""

from __future__ import annotations

import msgspec

from paydesk.orders.order import Order
from paydesk.orders.presentation import with_refund, without_refund
from paydesk.orders.store import COLUMNS as ORDER_COLUMNS
from paydesk.payments.job_queue import JobQueue, statements
from paydesk.payments.refund import Refund
from paydesk.storage.database import Transaction

COLUMNS = ", ".join(Refund.__struct_fields__)

# processed -> processed, so much of it spoken for. $3 is the part in minor units, NULL is all that was not given back.
# One statement decides: what is left, the 90 days, and that an order with a tip is given back as a whole.
RESERVE = f"""
UPDATE orders SET refunding_minor = refunding_minor + COALESCE(CAST($3 AS bigint), paid_minor - refunded_minor)
 WHERE seller_id = $1 AND order_id = $2 AND status = 'processed' AND paid_ms >= $4
   AND COALESCE(CAST($3 AS bigint), paid_minor - refunded_minor) <= paid_minor - refunded_minor - refunding_minor
   AND (COALESCE(tip_minor, 0) = 0 OR COALESCE(CAST($3 AS bigint), paid_minor) = paid_minor)
RETURNING {ORDER_COLUMNS}"""

ADD = f"""
INSERT INTO refunds ({COLUMNS}, next_ms, claimed_until_ms)
VALUES ({", ".join(f"${place}" for place in range(1, len(Refund.__struct_fields__) + 1))}, $10, $14)"""

SHOW = "UPDATE orders SET refunds = $3 WHERE seller_id = $1 AND order_id = $2"

# processing -> processed, failed: whoever comes first.
END = """
UPDATE refunds SET status = $3, reference_id = $4, ended_ms = $5, claimed_until_ms = 0
 WHERE seller_id = $1 AND refund_id = $2 AND status = 'processing'"""

# The reservation goes, and nothing is said of it.
RELEASE = """
UPDATE orders SET refunding_minor = refunding_minor - $3, refunds = $4 WHERE seller_id = $1 AND order_id = $2"""

# Asked in vain; the claim ends with the attempt that it was made for.
POSTPONE = """
UPDATE refunds SET next_ms = $4, unsent = unsent + $5, claimed_until_ms = 0
 WHERE seller_id = $1 AND refund_id = $2 AND attempts = $3 AND status = 'processing'"""

# One that has ended needs nobody.
TOLD = """
UPDATE refunds SET alerted_ms = $3
 WHERE seller_id = $1 AND refund_id = $2 AND status = 'processing' AND alerted_ms IS NULL"""

SELLERS_DUE, NEXT_DUE, CLAIM = statements("refunds", "refund_id", COLUMNS, "status = 'processing'")
DUE = JobQueue(SELLERS_DUE, NEXT_DUE, CLAIM, Refund)


async def reserve(tx: Transaction, order: Order, amount_minor: int | None, paid_after_ms: int) -> Order | None:
    """Reserve a part of what was paid, or all that is left of it; None where that can't be had."""
    row = await tx.one(RESERVE, order.seller_id, order.order_id, amount_minor, paid_after_ms)
    return Order(*row) if row else None


def add(tx: Transaction, order: Order, refund: Refund, claimed_until_ms: int) -> None:
    """Write the refund down, and show it with its order, which the transaction holds."""
    tx.defer(ADD, *msgspec.structs.astuple(refund), claimed_until_ms)
    tx.defer(SHOW, order.seller_id, order.order_id, with_refund(order.refunds, refund))


async def end(tx: Transaction, refund: Refund, now_ms: int) -> bool:
    """The refund is processed or failed now, as it says; False where it had ended before."""
    return await tx.run(END, refund.seller_id, refund.refund_id, refund.status, refund.reference_id, now_ms) > 0


async def release(tx: Transaction, order: Order, refund: Refund) -> None:
    """Take the refund off its order, which the transaction holds, as if it had never been asked for."""
    refunds = without_refund(order.refunds, refund)
    await tx.run(RELEASE, order.seller_id, order.order_id, refund.amount_minor, refunds)


async def postpone(tx: Transaction, refund: Refund, next_ms: int, *, unsent: bool) -> None:
    """It is asked for again, at `next_ms`; `unsent`: this attempt surely never left."""
    await tx.run(POSTPONE, refund.seller_id, refund.refund_id, refund.attempts, next_ms, int(unsent))


async def told(tx: Transaction, refund: Refund, now_ms: int) -> bool:
    """Note that operators are told; False where they were, or it has ended."""
    return await tx.run(TOLD, refund.seller_id, refund.refund_id, now_ms) > 0
