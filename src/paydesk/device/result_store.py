"""The SQL of results: what terminals reported of an order, each with the answer that it was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paydesk.orders.order import Order
from paydesk.storage.database import Transaction

Verdict = Literal["taken", "conflict", "finished", "late_approval", "unreadable"]

FIND = """
SELECT digest, answer_status, answer FROM results
 WHERE seller_id = $1 AND lease_id = $2 AND result_id = $3"""

COUNT = "SELECT COUNT(*) FROM results WHERE seller_id = $1 AND lease_id = $2"

RECORD = """
INSERT INTO results (seller_id, lease_id, result_id, digest, outcome, verdict, body, answer_status, answer, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING"""

# An operator knew that it was approved, and not under which reference.
ADOPT = """
UPDATE orders SET reference_id = $3 WHERE seller_id = $1 AND order_id = $2 AND reference_id IS NULL"""


@dataclass(frozen=True, slots=True)
class Stored:
    """A result that was answered: the digest of its content, the status, and the answer or the code of its refusal."""

    digest: bytes
    answer_status: int
    answer: str


async def find(tx: Transaction, order: Order, result_id: str) -> Stored | None:
    """What the result was answered when it came first."""
    row = await tx.one(FIND, order.seller_id, order.ulid, result_id)
    return Stored(bytes(row[0]), row[1], row[2]) if row else None


async def count(tx: Transaction, order: Order) -> int:
    """How many results of the order are kept."""
    row = await tx.one(COUNT, order.seller_id, order.ulid)
    assert row is not None, "a count is a row"
    return int(row[0])


async def record(
    tx: Transaction,
    order: Order,
    result_id: str,
    stored: Stored,
    outcome: str,
    verdict: Verdict,
    kept: str,
    now_ms: int,
) -> None:
    """Keep the result, `kept` as its content, with its answer; what is kept under its id stays."""
    await tx.run(
        RECORD,
        order.seller_id,
        order.ulid,
        result_id,
        stored.digest,
        outcome,
        verdict,
        kept,
        stored.answer_status,
        stored.answer,
        now_ms,
    )


async def adopt(tx: Transaction, order: Order, reference_id: str | None) -> None:
    """Show the payment with the reference that its terminal knows."""
    await tx.run(ADOPT, order.seller_id, order.order_id, reference_id)
