"""The SQL of reversals: approvals that are not their order's payment, to be confirmed and reversed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from paydesk.core import ids
from paydesk.orders.change import Change
from paydesk.orders.order import Order
from paydesk.payments.jobs import JobQueue, statements
from paydesk.storage.database import Transaction

BY_INQUIRY = "inquiry"
"""In place of a result's id, if the approval came from an inquiry."""

Confirmed = Literal["approved", "not_found"]
Ending = Literal["reversed", "not_found"]
Status = Literal["pending", "reversed", "not_found"]


@dataclass(frozen=True, slots=True)
class Reversal:
    """One pending row of `reversals`, with its columns in order.

    `reference_id` is the approval's reference as the terminal reported it, or "". `confirmed` is the inquiry result;
    once it is set, the approval is to be reversed.
    """

    seller_id: int
    reversal_id: str
    order_id: str
    live: int
    amount_minor: int
    reference_id: str
    attempts: int
    created_ms: int
    confirmed: Confirmed | None = None
    alerted_ms: int | None = None


COLUMNS = ", ".join(field.name for field in fields(Reversal))

BEGIN = """
INSERT INTO reversals (seller_id, reversal_id, order_id, lease_id, result_id, live, amount_minor, reference_id, status,
                       attempts, next_ms, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'pending', 0, $9, $9) ON CONFLICT DO NOTHING"""

SELLERS_DUE, NEXT_DUE, CLAIM = statements("reversals", "reversal_id", COLUMNS, "status = 'pending'")
QUEUE = JobQueue(SELLERS_DUE, NEXT_DUE, CLAIM, Reversal)

# `attempts` guards against an attempt whose lease has expired: only the latest attempt may reschedule.
POSTPONE = """
UPDATE reversals SET next_ms = $4, claimed_until_ms = 0
 WHERE seller_id = $1 AND reversal_id = $2 AND attempts = $3 AND status = 'pending'"""

# $3 is the inquiry result; NULL: inquire again. $4 is the approved amount.
CONFIRM = """
UPDATE reversals SET confirmed = $3, amount_minor = $4
 WHERE seller_id = $1 AND reversal_id = $2 AND status = 'pending'"""

# pending -> reversed, not_found.
END = """
UPDATE reversals SET status = $3, ended_ms = $4, claimed_until_ms = 0
 WHERE seller_id = $1 AND reversal_id = $2 AND status = 'pending'"""

# pending -> reversed, not_found, by an operator; not during an attempt ($5 is the machine's time).
RESOLVE = """
UPDATE reversals SET status = $3, ended_ms = $4
 WHERE seller_id = $1 AND reversal_id = $2 AND status = 'pending' AND claimed_until_ms <= $5"""

FIND = f"SELECT {COLUMNS}, status FROM reversals WHERE seller_id = $1 AND reversal_id = $2"

MARK_ALERTED = """
UPDATE reversals SET alerted_ms = $3 WHERE seller_id = $1 AND reversal_id = $2 AND alerted_ms IS NULL"""


async def begin(change: Change, order: Order, *, result_id: str, amount_minor: int, reference_id: str) -> bool:
    """Insert a reversal of an approval; False if that result has one already."""
    begun = await change.tx.run(
        BEGIN,
        order.seller_id,
        ids.ulid(change.now_ms),
        order.order_id,
        order.ulid,
        result_id,
        order.live,
        amount_minor,
        reference_id,
        change.now_ms,
    )
    if begun:
        change.tx.notify("money")
    return bool(begun)


async def postpone(tx: Transaction, reversal: Reversal, next_ms: int) -> None:
    """Schedule the next attempt for `next_ms`."""
    await tx.run(POSTPONE, reversal.seller_id, reversal.reversal_id, reversal.attempts, next_ms)


async def confirm(tx: Transaction, reversal: Reversal) -> bool:
    """Store the reversal's `confirmed` and amount; False if it has ended."""
    return bool(
        await tx.run(CONFIRM, reversal.seller_id, reversal.reversal_id, reversal.confirmed, reversal.amount_minor)
    )


async def end(change: Change, reversal: Reversal, ending: Ending) -> bool:
    """End the reversal; False if it has ended before."""
    return bool(await change.tx.run(END, reversal.seller_id, reversal.reversal_id, ending, change.now_ms))


async def resolve(change: Change, reversal: Reversal, ending: Ending, wall_ms: int) -> bool:
    """End the reversal for an operator; False during an attempt, or if it has ended before."""
    return bool(await change.tx.run(RESOLVE, reversal.seller_id, reversal.reversal_id, ending, change.now_ms, wall_ms))


async def find(tx: Transaction, seller_id: int, reversal_id: str) -> tuple[Reversal, Status] | None:
    """Return the reversal and its status, or None."""
    row = await tx.one(FIND, seller_id, reversal_id)
    return (Reversal(*row[:-1]), row[-1]) if row else None


async def mark_alerted(change: Change, reversal: Reversal) -> bool:
    """Record that operators are alerted; False if they were before."""
    return bool(await change.tx.run(MARK_ALERTED, reversal.seller_id, reversal.reversal_id, change.now_ms))
