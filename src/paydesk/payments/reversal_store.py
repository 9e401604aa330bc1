"""The SQL of reversals: an approval that is not its order's payment, confirmed by an inquiry and given back."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from paydesk.core import ids
from paydesk.orders.order import Order
from paydesk.payments.job_queue import JobQueue, statements
from paydesk.storage.database import Transaction

BY_INQUIRY = "inquiry"
"""Stands for a result's id where the acquirer itself told of the approval."""

Confirmed = Literal["approved", "not_found"]
Ending = Literal["reversed", "not_found"]
Status = Literal["pending", "reversed", "not_found"]


@dataclass(frozen=True, slots=True)
class Reversal:
    """One row of `reversals` that is pending. Its columns in their order.

    `reference_id` is what the terminal called the approval, perhaps nothing. `confirmed` is what the acquirer said of
    it: the intent to reverse it all the same.
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
DUE = JobQueue(SELLERS_DUE, NEXT_DUE, CLAIM, Reversal)

# A claim that ran out is another's by now: what the later attempt does counts.
POSTPONE = """
UPDATE reversals SET next_ms = $4, claimed_until_ms = 0
 WHERE seller_id = $1 AND reversal_id = $2 AND attempts = $3 AND status = 'pending'"""

# What the acquirer said of it; NULL: it is to be asked again. $4 is the amount that it approved.
CONFIRM = """
UPDATE reversals SET confirmed = $3, amount_minor = $4
 WHERE seller_id = $1 AND reversal_id = $2 AND status = 'pending'"""

# pending -> reversed, not_found: whoever comes first.
END = """
UPDATE reversals SET status = $3, ended_ms = $4, claimed_until_ms = 0
 WHERE seller_id = $1 AND reversal_id = $2 AND status = 'pending'"""

# pending -> reversed, not_found, by an operator: not while the acquirer is being asked, by the machine's clock ($5).
RESOLVE = """
UPDATE reversals SET status = $3, ended_ms = $4
 WHERE seller_id = $1 AND reversal_id = $2 AND status = 'pending' AND claimed_until_ms <= $5"""

FIND = f"SELECT {COLUMNS}, status FROM reversals WHERE seller_id = $1 AND reversal_id = $2"

TOLD = """
UPDATE reversals SET alerted_ms = $3 WHERE seller_id = $1 AND reversal_id = $2 AND alerted_ms IS NULL"""


async def begin(
    tx: Transaction, order: Order, now_ms: int, *, result_id: str, amount_minor: int, reference_id: str
) -> bool:
    """Write down that an approval is to be given back; False where that result's already is."""
    begun = await tx.run(
        BEGIN,
        order.seller_id,
        ids.ulid(now_ms),
        order.order_id,
        order.ulid,
        result_id,
        order.live,
        amount_minor,
        reference_id,
        now_ms,
    )
    if begun:
        tx.notify("money")
    return bool(begun)


async def postpone(tx: Transaction, reversal: Reversal, next_ms: int) -> None:
    """It is tried again, at `next_ms`."""
    await tx.run(POSTPONE, reversal.seller_id, reversal.reversal_id, reversal.attempts, next_ms)


async def confirm(tx: Transaction, reversal: Reversal) -> bool:
    """Keep what the acquirer said of it, as the reversal has it by now; False where it has ended."""
    return bool(
        await tx.run(CONFIRM, reversal.seller_id, reversal.reversal_id, reversal.confirmed, reversal.amount_minor)
    )


async def end(tx: Transaction, reversal: Reversal, ending: Ending, now_ms: int) -> bool:
    """Nothing is left to be given back; False where it had ended before."""
    return bool(await tx.run(END, reversal.seller_id, reversal.reversal_id, ending, now_ms))


async def resolve(tx: Transaction, reversal: Reversal, ending: Ending, now_ms: int, wall_ms: int) -> bool:
    """An operator ends it; False where the acquirer is being asked, or it had ended before."""
    return bool(await tx.run(RESOLVE, reversal.seller_id, reversal.reversal_id, ending, now_ms, wall_ms))


async def find(tx: Transaction, seller_id: int, reversal_id: str) -> tuple[Reversal, Status] | None:
    """The reversal, and how it stands; None where the seller has none of that id."""
    row = await tx.one(FIND, seller_id, reversal_id)
    return (Reversal(*row[:-1]), row[-1]) if row else None


async def told(tx: Transaction, reversal: Reversal, now_ms: int) -> bool:
    """Note that operators are told; False where they were."""
    return bool(await tx.run(TOLD, reversal.seller_id, reversal.reversal_id, now_ms))
