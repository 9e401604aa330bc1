"""The SQL of inquiries: an order whose outcome nobody knows, claimed by a worker, asked for until there is one."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from paydesk.orders.order import Order
from paydesk.payments.job_queue import JobQueue, statements
from paydesk.storage.database import Transaction

Ending = Literal["approved", "declined", "not_found", "result", "operator", "simulated"]
Standing = Literal["asking", "reversing", "ended"]


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One row of `inquiries` that has no end yet. Its columns in their order.

    `reversing_ms`: since then it is being undone at the acquirer, and an approval does not count any more.
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
DUE = JobQueue(SELLERS_DUE, NEXT_DUE, CLAIM, Inquiry)

# A claim that ran out is another's by now: what the later attempt does counts.
POSTPONE = """
UPDATE inquiries SET next_ms = $4, claimed_until_ms = 0
 WHERE seller_id = $1 AND order_id = $2 AND attempts = $3 AND ended_ms IS NULL"""

# Whoever writes it down first begins to undo the payment; from then on no result can approve the order.
BEGIN_REVERSING = """
UPDATE inquiries SET reversing_ms = COALESCE(reversing_ms, $3)
 WHERE seller_id = $1 AND order_id = $2 AND ended_ms IS NULL"""

# The acquirer refused to undo it: it is asked again what is true.
ABANDON_REVERSAL = """
UPDATE inquiries SET reversing_ms = NULL WHERE seller_id = $1 AND order_id = $2 AND ended_ms IS NULL"""

END = """
UPDATE inquiries SET ended_ms = $3, outcome = $4, claimed_until_ms = 0
 WHERE seller_id = $1 AND order_id = $2 AND ended_ms IS NULL"""

SKIP = """
INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, created_ms, ended_ms, outcome)
VALUES ($1, $2, $3, 'nobody is to be asked', 0, $4, $4, $4, 'forgone') ON CONFLICT DO NOTHING"""

TOLD = """
UPDATE inquiries SET alerted_ms = $3 WHERE seller_id = $1 AND order_id = $2 AND alerted_ms IS NULL"""

STANDING = """
SELECT CASE WHEN ended_ms IS NOT NULL THEN 'ended' WHEN reversing_ms IS NOT NULL THEN 'reversing' ELSE 'asking' END
  FROM inquiries WHERE seller_id = $1 AND order_id = $2"""

OUTCOME = "SELECT outcome FROM inquiries WHERE seller_id = $1 AND order_id = $2"


async def postpone(tx: Transaction, inquiry: Inquiry, next_ms: int) -> None:
    """The acquirer is asked again, at `next_ms`."""
    await tx.run(POSTPONE, inquiry.seller_id, inquiry.order_id, inquiry.attempts, next_ms)


async def begin_reversing(tx: Transaction, inquiry: Inquiry, now_ms: int) -> bool:
    """Intend to undo the payment; False where the inquiry has ended."""
    return bool(await tx.run(BEGIN_REVERSING, inquiry.seller_id, inquiry.order_id, now_ms))


async def abandon_reversal(tx: Transaction, inquiry: Inquiry) -> None:
    """The payment is not being undone."""
    await tx.run(ABANDON_REVERSAL, inquiry.seller_id, inquiry.order_id)


async def end(tx: Transaction, order: Order, ending: Ending, now_ms: int) -> bool:
    """Nobody is asked any more; False where nobody was."""
    return bool(await tx.run(END, order.seller_id, order.order_id, now_ms, ending))


async def skip(tx: Transaction, order: Order, now_ms: int) -> None:
    """Nobody is to be asked at all."""
    await tx.run(SKIP, order.seller_id, order.order_id, order.live, now_ms)


async def told(tx: Transaction, inquiry: Inquiry, now_ms: int) -> bool:
    """Note that operators are told; False where they were."""
    return bool(await tx.run(TOLD, inquiry.seller_id, inquiry.order_id, now_ms))


async def standing(tx: Transaction, order: Order) -> Standing | None:
    """How far the order's inquiry is by now; None where there is none. While it is `reversing` nothing approves it."""
    row = await tx.one(STANDING, order.seller_id, order.order_id)
    return row[0] if row else None


async def outcome(tx: Transaction, order: Order) -> str | None:
    """How the order's inquiry ended; None where there is none, or it has not ended."""
    row = await tx.one(OUTCOME, order.seller_id, order.order_id)
    return row[0] if row else None
