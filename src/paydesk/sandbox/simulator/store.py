"""The SQL of the simulated acquirer's book. Its tables are its own: no order's transaction ever conflict_keys them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from paydesk.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of `simulator_payments`, its columns in their order. Reversed and never approved: forbidden."""

    seller_id: int
    payment_id: str
    terminal_id: str
    live: int
    amount_minor: int
    currency: str
    outcome: str
    detail: str | None
    reference_id: str
    authorization_code: str | None
    card: str | None
    installments: int
    visible_ms: int
    created_ms: int
    reversed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Movement:
    """One row of `simulator_movements`, its columns in their order: money that went back, or did not."""

    seller_id: int
    movement_key: str
    kind: str
    payment_id: str
    amount_minor: int
    outcome: str
    detail: str | None
    reference_id: str
    visible_ms: int
    created_ms: int


_ENTRY = ", ".join(field.name for field in fields(Entry))
_MOVEMENT = ", ".join(field.name for field in fields(Movement))

# Whoever is first under the key decides; everybody else reads what was decided.
ENTER = f"""
INSERT INTO simulator_payments ({_ENTRY})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT DO NOTHING"""

FIND = f"SELECT {_ENTRY} FROM simulator_payments WHERE seller_id = $1 AND payment_id = $2"

MOVE = f"""
INSERT INTO simulator_movements ({_MOVEMENT})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING"""

FIND_MOVEMENT = f"SELECT {_MOVEMENT} FROM simulator_movements WHERE seller_id = $1 AND movement_key = $2"

# The check is the statement: refunds that come together never take more than what was approved.
TAKE = """
UPDATE simulator_payments SET refunded_minor = refunded_minor + $3
 WHERE seller_id = $1 AND payment_id = $2 AND outcome = 'approved' AND reversed_ms IS NULL
   AND CAST($3 AS bigint) > 0 AND refunded_minor + $3 <= amount_minor"""

DECLINE_MOVEMENT = """
UPDATE simulator_movements SET outcome = 'declined', detail = $3 WHERE seller_id = $1 AND movement_key = $2"""

UNDO = """
UPDATE simulator_payments SET reversed_ms = $3
 WHERE seller_id = $1 AND payment_id = $2 AND outcome = 'approved' AND reversed_ms IS NULL
   AND ($4 = '' OR reference_id = $4)"""

FIRST_ASK = """
INSERT INTO simulator_requests (seller_id, operation, request_key, ordinal, requests, created_ms)
SELECT CAST($1 AS bigint), CAST($2 AS text), CAST($3 AS text), COALESCE(MAX(ordinal), 0) + 1, 0, CAST($4 AS bigint)
  FROM simulator_requests WHERE seller_id = $1 AND operation = $2
ON CONFLICT DO NOTHING"""

ASK = """
UPDATE simulator_requests SET requests = requests + 1 WHERE seller_id = $1 AND operation = $2 AND request_key = $3
RETURNING ordinal, requests"""


async def enter(tx: Transaction, entry: Entry) -> Entry:
    """The payment as the book has it: as it is given, or as it was entered before under its id."""
    if await tx.run(ENTER, *_values(entry)):
        return entry
    known = await find(tx, entry.seller_id, entry.payment_id)
    assert known is not None, "only what is long over is crossed out of the book"
    return known


async def find(tx: Transaction, seller_id: int, payment_id: str) -> Entry | None:
    """The payment, or None."""
    row = await tx.one(FIND, seller_id, payment_id)
    return Entry(*row) if row is not None else None


async def move(tx: Transaction, movement: Movement) -> Movement | None:
    """Write the movement down; None where it was the first under its key, otherwise that one."""
    if await tx.run(MOVE, *_values(movement)):
        return None
    row = await tx.one(FIND_MOVEMENT, movement.seller_id, movement.movement_key)
    assert row is not None, "only what is long over is crossed out of the book"
    return Movement(*row)


async def take(tx: Transaction, movement: Movement) -> bool:
    """Take a refund off what is left of its payment; False where there is not so much."""
    return bool(await tx.run(TAKE, movement.seller_id, movement.payment_id, movement.amount_minor))


async def decline(tx: Transaction, movement: Movement, detail: str) -> None:
    """The movement did not happen after all."""
    await tx.run(DECLINE_MOVEMENT, movement.seller_id, movement.movement_key, detail)


async def undo(tx: Transaction, movement: Movement, reference_id: str) -> None:
    """Nothing is left of the approval, where there is one with that reference (any, where it is empty)."""
    await tx.run(UNDO, movement.seller_id, movement.payment_id, movement.created_ms, reference_id)


async def ask(tx: Transaction, seller_id: int, operation: str, key: str, now_ms: int) -> tuple[int, int]:
    """Count that it was asked: which of the seller's requests of this operation it is, and how often it came."""
    row = await tx.one(ASK, seller_id, operation, key)
    while row is None:
        await tx.run(FIRST_ASK, seller_id, operation, key, now_ms)
        row = await tx.one(ASK, seller_id, operation, key)
    return row[0], row[1]


def _values(row: Entry | Movement) -> tuple[object, ...]:
    return tuple(getattr(row, field.name) for field in fields(row))
