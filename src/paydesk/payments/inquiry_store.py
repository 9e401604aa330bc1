"""The SQL of inquiries: one for each order with an unknown outcome, claimed by a worker until it has ended."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from paydesk.orders.change import Change
from paydesk.orders.order import Order
from paydesk.payments.jobs import JobQueue, statements
from paydesk.storage.database import Transaction

Ending = Literal["approved", "declined", "not_found", "result", "operator", "simulated"]
Status = Literal["asking", "reversing", "ended"]


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One open row of `inquiries`, with its columns in order.

    `reversing_ms`: since then the payment is being reversed at the acquirer, and no approval processes the order.
    """

    seller_id: int
    order_id: str
    live: int
    reason: str
    attempts: int
    created_ms: int
    reversing_ms: int | None = None
    alerted_ms: int | None = None


COLUMNS = ", ".join(field.name for field in fields(Inquiry))

SELLERS_DUE, NEXT_DUE, CLAIM = statements("inquiries", "order_id", COLUMNS, "ended_ms IS NULL")
QUEUE = JobQueue(SELLERS_DUE, NEXT_DUE, CLAIM, Inquiry)

# `attempts` guards against an attempt whose lease has expired: only the latest attempt may reschedule.
POSTPONE = """
UPDATE inquiries SET next_ms = $4, claimed_until_ms = 0
 WHERE seller_id = $1 AND order_id = $2 AND attempts = $3 AND ended_ms IS NULL"""

# From the first time on no result can approve the order.
BEGIN_REVERSING = """
UPDATE inquiries SET reversing_ms = COALESCE(reversing_ms, $3)
 WHERE seller_id = $1 AND order_id = $2 AND ended_ms IS NULL"""

# The acquirer declined the reversal, so the next attempt inquires again.
ABANDON_REVERSAL = """
UPDATE inquiries SET reversing_ms = NULL WHERE seller_id = $1 AND order_id = $2 AND ended_ms IS NULL"""

END = """
UPDATE inquiries SET ended_ms = $3, outcome = $4, claimed_until_ms = 0
 WHERE seller_id = $1 AND order_id = $2 AND ended_ms IS NULL"""

SKIP = """
INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, created_ms, ended_ms, outcome)
VALUES ($1, $2, $3, 'the outcome is simulated', 0, $4, $4, $4, 'forgone') ON CONFLICT DO NOTHING"""

MARK_ALERTED = """
UPDATE inquiries SET alerted_ms = $3 WHERE seller_id = $1 AND order_id = $2 AND alerted_ms IS NULL"""

STATUS = """
SELECT CASE WHEN ended_ms IS NOT NULL THEN 'ended' WHEN reversing_ms IS NOT NULL THEN 'reversing' ELSE 'asking' END
  FROM inquiries WHERE seller_id = $1 AND order_id = $2"""

OUTCOME = "SELECT outcome FROM inquiries WHERE seller_id = $1 AND order_id = $2"


async def postpone(tx: Transaction, inquiry: Inquiry, next_ms: int) -> None:
    """Schedule the next attempt for `next_ms`."""
    await tx.run(POSTPONE, inquiry.seller_id, inquiry.order_id, inquiry.attempts, next_ms)


async def begin_reversing(change: Change, inquiry: Inquiry) -> bool:
    """Record the intent to reverse the payment; False if the inquiry has ended."""
    return bool(await change.tx.run(BEGIN_REVERSING, inquiry.seller_id, inquiry.order_id, change.now_ms))


async def abandon_reversal(tx: Transaction, inquiry: Inquiry) -> None:
    """Withdraw the intent to reverse the payment."""
    await tx.run(ABANDON_REVERSAL, inquiry.seller_id, inquiry.order_id)


async def end(change: Change, order: Order, ending: Ending) -> bool:
    """End the order's inquiry; False if none is open."""
    return bool(await change.tx.run(END, order.seller_id, order.order_id, change.now_ms, ending))


async def skip(change: Change, order: Order) -> None:
    """Insert an inquiry that has ended, so that the acquirer is not asked about the order."""
    await change.tx.run(SKIP, order.seller_id, order.order_id, order.live, change.now_ms)


async def mark_alerted(change: Change, inquiry: Inquiry) -> bool:
    """Record that operators are alerted; False if they were before."""
    return bool(await change.tx.run(MARK_ALERTED, inquiry.seller_id, inquiry.order_id, change.now_ms))


async def status_of(tx: Transaction, order: Order) -> Status | None:
    """Return the status of the order's inquiry, None if it has none. While `reversing`, nothing approves the order."""
    row = await tx.one(STATUS, order.seller_id, order.order_id)
    return row[0] if row else None


async def outcome(tx: Transaction, order: Order) -> str | None:
    """Return how the order's inquiry ended; None if it has none or it is open."""
    row = await tx.one(OUTCOME, order.seller_id, order.order_id)
    return row[0] if row else None
