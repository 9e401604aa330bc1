"""SQL of the simulator ledger: the simulated acquirer's own tables, which no transaction about orders uses."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

from paydesk.platform.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class LedgerPayment:
    """One row of `simulator_payments`, in column order. Declined and reversed: blocked before it arrived."""

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
    """One row of `simulator_movements`, in column order: a refund or reversal, approved or declined."""

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


_PAYMENT = ", ".join(field.name for field in fields(LedgerPayment))
_MOVEMENT = ", ".join(field.name for field in fields(Movement))

# The first request under a key decides; later ones read the stored result.
ADD_PAYMENT = f"""
INSERT INTO simulator_payments ({_PAYMENT})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT DO NOTHING"""

FIND_PAYMENT = f"SELECT {_PAYMENT} FROM simulator_payments WHERE seller_id = $1 AND payment_id = $2"

ADD_MOVEMENT = f"""
INSERT INTO simulator_movements ({_MOVEMENT})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING"""

FIND_MOVEMENT = f"SELECT {_MOVEMENT} FROM simulator_movements WHERE seller_id = $1 AND movement_key = $2"

# The check is part of the statement: concurrent refunds never exceed the approved amount.
DEDUCT_REFUND = """
UPDATE simulator_payments SET refunded_minor = refunded_minor + $3
 WHERE seller_id = $1 AND payment_id = $2 AND outcome = 'approved' AND reversed_ms IS NULL
   AND CAST($3 AS bigint) > 0 AND refunded_minor + $3 <= amount_minor"""

DECLINE_MOVEMENT = """
UPDATE simulator_movements SET outcome = 'declined', detail = $3 WHERE seller_id = $1 AND movement_key = $2"""

REVERSE_PAYMENT = """
UPDATE simulator_payments SET reversed_ms = $3
 WHERE seller_id = $1 AND payment_id = $2 AND outcome = 'approved' AND reversed_ms IS NULL
   AND ($4 = '' OR reference_id = $4)"""

ADD_REQUEST = """
INSERT INTO simulator_requests (seller_id, operation, request_key, ordinal, requests, created_ms)
SELECT CAST($1 AS bigint), CAST($2 AS text), CAST($3 AS text), COALESCE(MAX(ordinal), 0) + 1, 0, CAST($4 AS bigint)
  FROM simulator_requests WHERE seller_id = $1 AND operation = $2
ON CONFLICT DO NOTHING"""

COUNT_REQUEST = """
UPDATE simulator_requests SET requests = requests + 1
 WHERE seller_id = $1 AND operation = $2 AND request_key = $3
RETURNING ordinal, requests"""


async def add_payment(tx: Transaction, payment: LedgerPayment) -> LedgerPayment:
    """Insert the payment and return it, or return the one already stored under its id."""
    if await tx.run(ADD_PAYMENT, *astuple(payment)):
        return payment
    stored = await find_payment(tx, payment.seller_id, payment.payment_id)
    assert stored is not None, "payments are deleted only by retention"
    return stored


async def find_payment(tx: Transaction, seller_id: int, payment_id: str) -> LedgerPayment | None:
    """Return the payment, or None."""
    row = await tx.one(FIND_PAYMENT, seller_id, payment_id)
    return LedgerPayment(*row) if row is not None else None


async def add_movement(tx: Transaction, movement: Movement) -> Movement | None:
    """Insert the movement and return None, or return the one already stored under its key."""
    if await tx.run(ADD_MOVEMENT, *astuple(movement)):
        return None
    row = await tx.one(FIND_MOVEMENT, movement.seller_id, movement.movement_key)
    assert row is not None, "movements are deleted only by retention"
    return Movement(*row)


async def deduct_refund(tx: Transaction, movement: Movement) -> bool:
    """Deduct a refund from the rest of its payment; return False where the rest is too small."""
    return bool(await tx.run(DEDUCT_REFUND, movement.seller_id, movement.payment_id, movement.amount_minor))


async def decline_movement(tx: Transaction, movement: Movement, detail: str) -> None:
    """Change the movement to declined."""
    await tx.run(DECLINE_MOVEMENT, movement.seller_id, movement.movement_key, detail)


async def reverse_payment(tx: Transaction, movement: Movement, reference_id: str) -> None:
    """Reverse the approved payment, if it has that reference; an empty reference matches any."""
    await tx.run(REVERSE_PAYMENT, movement.seller_id, movement.payment_id, movement.created_ms, reference_id)


async def count_request(tx: Transaction, seller_id: int, operation: str, key: str, now_ms: int) -> tuple[int, int]:
    """Count the request; return its ordinal among the seller's of this operation, and how often its key was sent."""
    row = await tx.one(COUNT_REQUEST, seller_id, operation, key)
    while row is None:
        await tx.run(ADD_REQUEST, seller_id, operation, key, now_ms)
        row = await tx.one(COUNT_REQUEST, seller_id, operation, key)
    return row[0], row[1]
