"""The SQL of reversals: approvals that are not their order's payment, to be confirmed and reversed."""

from __future__ import annotations

from typing import Literal

from paydesk.core import ids
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.jobs import OpenJob
from paydesk.engine.payments.lifecycles import NOT_FOUND, PENDING, REVERSALS
from paydesk.platform.storage.database import Transaction

BY_ACQUIRER = "inquiry"
"""Stands for a result's id if the approval is the acquirer's own answer."""

Ending = Literal["reversed", "not_found"]


class Reversal(OpenJob, frozen=True):
    """One pending row of `reversals`.

    `reference_id` is the approval's reference as the terminal reported it, or "". `confirmed` is the inquiry result;
    once it is set, the approval is to be reversed.
    """

    reversal_id: str
    amount_minor: int
    reference_id: str
    confirmed: Literal["approved", "not_found"] | None = None
    refunding_ms: int | None = None
    """Since then the reversal is too late, and the payment is refunded under the reversal's id."""
    chip_data: bytes | None = None


# The approvals of a payment that the acquirer did not have share a row: it may have one of them after all.
BEGIN = f"""
INSERT INTO reversals (seller_id, reversal_id, order_id, lease_id, result_id, live, amount_minor, reference_id, status,
                       attempts, next_ms, created_ms, confirmed, chip_data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '{PENDING.name}', 0, $9, $9, $10, $11)
ON CONFLICT (seller_id, lease_id, result_id) DO UPDATE
   SET status = excluded.status, attempts = 0, next_ms = excluded.next_ms, created_ms = excluded.created_ms,
       claimed_until_ms = 0, amount_minor = excluded.amount_minor, reference_id = excluded.reference_id,
       confirmed = excluded.confirmed, chip_data = excluded.chip_data, alerted_ms = NULL, ended_ms = NULL
 WHERE reversals.{NOT_FOUND}"""

# $3 is the inquiry result; NULL: inquire again. $4 is the approved amount.
CONFIRM = f"""
UPDATE reversals SET confirmed = $3, amount_minor = $4
 WHERE seller_id = $1 AND reversal_id = $2 AND {REVERSALS.open}"""

# Two reversals may be of one approval, which is refunded once: the transaction has locked the order's row.
BEGIN_REFUNDING = f"""
UPDATE reversals SET refunding_ms = COALESCE(refunding_ms, $3)
 WHERE seller_id = $1 AND reversal_id = $2 AND {REVERSALS.open}
   AND NOT EXISTS (SELECT 1 FROM reversals other
                    WHERE other.seller_id = $1 AND other.order_id = $4 AND other.reversal_id <> $2
                      AND other.refunding_ms IS NOT NULL)"""

END = f"""
UPDATE reversals SET status = $3, ended_ms = $4, claimed_until_ms = 0, chip_data = NULL
 WHERE seller_id = $1 AND reversal_id = $2 AND {REVERSALS.open}"""

# By an operator, and not during an attempt ($5 is the machine's time).
RESOLVE = f"{END} AND claimed_until_ms <= $5"

FIND = (
    f"SELECT {', '.join(Reversal.__struct_fields__)}, status FROM reversals WHERE seller_id = $1 AND reversal_id = $2"
)


async def begin(
    change: Change,
    order: Order,
    amount_minor: int,
    reference_id: str = "",
    *,
    result_id: str = BY_ACQUIRER,
    confirmed: Literal["approved"] | None = None,
    chip_data: bytes = b"",
) -> bool:
    """Insert a reversal of an approval, or begin it anew if the acquirer had none; False if the result has a reversal.

    `confirmed`: the acquirer has said so itself, and is not asked again.
    """
    values = result_id, order.live, amount_minor, reference_id, change.now_ms, confirmed, chip_data or None
    key = order.seller_id, ids.ulid(change.now_ms), order.order_id, order.ulid
    change.tx.notify("money")
    return bool(await change.tx.run(BEGIN, *key, *values))


async def confirm(tx: Transaction, reversal: Reversal) -> bool:
    """Store the reversal's `confirmed` and amount; False if it has ended."""
    key = reversal.seller_id, reversal.reversal_id
    return bool(await tx.run(CONFIRM, *key, reversal.confirmed, reversal.amount_minor))


async def begin_refunding(change: Change, reversal: Reversal) -> bool:
    """Record that the payment is refunded, as it can no longer be reversed; False if another reversal refunds it."""
    key = reversal.seller_id, reversal.reversal_id
    return bool(await change.tx.run(BEGIN_REFUNDING, *key, change.now_ms, reversal.order_id))


async def end(change: Change, reversal: Reversal, ending: Ending) -> bool:
    """End the reversal; False if it has ended before."""
    return bool(await change.tx.run(END, reversal.seller_id, reversal.reversal_id, ending, change.now_ms))


async def resolve(change: Change, reversal: Reversal, ending: Ending, wall_ms: int) -> bool:
    """End the reversal for an operator; False during an attempt, or if it has ended before."""
    return bool(await change.tx.run(RESOLVE, reversal.seller_id, reversal.reversal_id, ending, change.now_ms, wall_ms))


async def find(tx: Transaction, seller_id: int, reversal_id: str) -> tuple[Reversal, str] | None:
    """Return the reversal and its status, or None."""
    row = await tx.one(FIND, seller_id, reversal_id)
    return (Reversal(*row[:-1]), row[-1]) if row else None
