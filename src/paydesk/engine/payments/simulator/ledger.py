"""SQL of the simulator ledger: the simulated acquirer's own tables, which no transaction about orders uses."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import Literal

from paydesk.platform.storage.database import Transaction

State = Literal["void", "provisional", "final"]
"""A payment is declined, reversed or undone; approved until it is confirmed; or approved."""
OTHER_AMOUNT = "other_amount"
"""The detail of an approval that a fault has given another amount. It is not reversed."""


@dataclass(frozen=True, slots=True)
class LedgerPayment:
    """One row of `simulator_payments`. Declined and reversed: blocked before it arrived."""

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
    at_deadline: str | None = None
    """The capability `at_deadline` when it was approved; None: it needs no confirmation."""
    confirm_until_ms: int | None = None
    confirmed_ms: int | None = None

    def is_overdue(self, now_ms: int) -> bool:
        """Return whether the deadline passed before the payment was confirmed or reversed."""
        if self.confirm_until_ms is None:
            return False
        times_ms = (self.confirmed_ms, self.reversed_ms, now_ms)
        return self.confirm_until_ms <= min(time_ms for time_ms in times_ms if time_ms is not None)

    def state(self, now_ms: int) -> State:
        """Return its state: at the deadline the acquirer itself may confirm or undo an approval."""
        by_acquirer = self.at_deadline if self.is_overdue(now_ms) else None
        if self.outcome != "approved" or self.reversed_ms is not None or by_acquirer == "undoes":
            return "void"
        if self.at_deadline is None or self.confirmed_ms is not None or by_acquirer == "confirms":
            return "final"
        return "provisional"


@dataclass(frozen=True, slots=True)
class Movement:
    """One row of `simulator_movements` or `simulator_confirmation_movements`, in column order: approved or declined."""

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
_PAYMENT_PLACES = ", ".join(f"${place}" for place in range(1, len(fields(LedgerPayment)) + 1))
_MOVEMENT = ", ".join(field.name for field in fields(Movement))
# The older tables accept no confirmations.
_MOVEMENTS = dict.fromkeys(("refund", "reversal"), "simulator_movements") | {
    "confirmation": "simulator_confirmation_movements"
}
_REQUESTS = dict.fromkeys(("payment", "inquiry", "refund", "reversal"), "simulator_requests") | {
    "confirmation": "simulator_confirmation_requests"
}

# The first request under a key decides; later ones read the stored result.
ADD_PAYMENT = f"""
INSERT INTO simulator_payments ({_PAYMENT}) VALUES ({_PAYMENT_PLACES}) ON CONFLICT DO NOTHING"""

FIND_PAYMENT = f"SELECT {_PAYMENT} FROM simulator_payments WHERE seller_id = $1 AND payment_id = $2"

LOCK_PAYMENT = f"{FIND_PAYMENT} FOR UPDATE"

ADD_MOVEMENT = {
    kind: f"""
INSERT INTO {table} ({_MOVEMENT})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING"""
    for kind, table in _MOVEMENTS.items()
}

FIND_MOVEMENT = {
    kind: f"SELECT {_MOVEMENT} FROM {table} WHERE seller_id = $1 AND movement_key = $2"
    for kind, table in _MOVEMENTS.items()
}

APPROVED_PAYMENTS = f"SELECT {_PAYMENT} FROM simulator_payments WHERE live = $1 AND outcome = 'approved'"

APPROVED_MOVEMENTS = f"""
SELECT {_MOVEMENT} FROM simulator_movements WHERE outcome = 'approved'
UNION ALL SELECT {_MOVEMENT} FROM simulator_confirmation_movements WHERE outcome = 'approved'"""

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

CONFIRM_PAYMENT = "UPDATE simulator_payments SET confirmed_ms = $3 WHERE seller_id = $1 AND payment_id = $2"

ADD_REQUEST = {
    operation: f"""
INSERT INTO {table} (seller_id, operation, request_key, ordinal, requests, created_ms)
SELECT CAST($1 AS bigint), CAST($2 AS text), CAST($3 AS text), COALESCE(MAX(ordinal), 0) + 1, 0, CAST($4 AS bigint)
  FROM {table} WHERE seller_id = $1 AND operation = $2
ON CONFLICT DO NOTHING"""
    for operation, table in _REQUESTS.items()
}

COUNT_REQUEST = {
    operation: f"""
UPDATE {table} SET requests = requests + 1
 WHERE seller_id = $1 AND operation = $2 AND request_key = $3
RETURNING ordinal, requests"""
    for operation, table in _REQUESTS.items()
}


async def add_payment(tx: Transaction, payment: LedgerPayment) -> LedgerPayment:
    """Insert the payment and return it, or return the payment already stored under its id."""
    if await tx.run(ADD_PAYMENT, *astuple(payment)):
        return payment
    stored = await find_payment(tx, payment.seller_id, payment.payment_id)
    assert stored is not None, "payments are deleted only by retention"
    return stored


async def find_payment(tx: Transaction, seller_id: int, payment_id: str, *, lock: bool = False) -> LedgerPayment | None:
    """Return the payment, locked or not; None if the ledger has none."""
    row = await tx.one(LOCK_PAYMENT if lock else FIND_PAYMENT, seller_id, payment_id)
    return LedgerPayment(*row) if row is not None else None


async def add_movement(tx: Transaction, movement: Movement) -> Movement | None:
    """Insert the movement and return None, or return the movement already stored under its key."""
    if await tx.run(ADD_MOVEMENT[movement.kind], *astuple(movement)):
        return None
    stored = await find_movement(tx, movement.kind, movement.seller_id, movement.movement_key)
    assert stored is not None, "movements are deleted only by retention"
    return stored


async def find_movement(tx: Transaction, kind: str, seller_id: int, key: str) -> Movement | None:
    """Return the movement, or None."""
    row = await tx.one(FIND_MOVEMENT[kind], seller_id, key)
    return Movement(*row) if row is not None else None


async def approved(tx: Transaction, live: int) -> tuple[list[LedgerPayment], list[Movement]]:
    """Return the approved payments of test orders, or of live orders, and all approved movements."""
    payments = [LedgerPayment(*row) for row in await tx.all(APPROVED_PAYMENTS, live)]
    return payments, [Movement(*row) for row in await tx.all(APPROVED_MOVEMENTS)]


async def deduct_refund(tx: Transaction, movement: Movement) -> bool:
    """Deduct a refund from the rest of its payment; return False where the rest is too small."""
    return bool(await tx.run(DEDUCT_REFUND, movement.seller_id, movement.payment_id, movement.amount_minor))


async def decline_movement(tx: Transaction, movement: Movement, detail: str) -> None:
    """Change the movement to declined."""
    await tx.run(DECLINE_MOVEMENT, movement.seller_id, movement.movement_key, detail)


async def reverse_payment(tx: Transaction, movement: Movement, reference_id: str) -> None:
    """Reverse the approved payment, if it has that reference; an empty reference matches any."""
    await tx.run(REVERSE_PAYMENT, movement.seller_id, movement.payment_id, movement.created_ms, reference_id)


async def confirm_payment(tx: Transaction, movement: Movement) -> None:
    """Make the payment final. It is locked."""
    await tx.run(CONFIRM_PAYMENT, movement.seller_id, movement.payment_id, movement.created_ms)


async def count_request(tx: Transaction, seller_id: int, operation: str, key: str, now_ms: int) -> tuple[int, int]:
    """Count the request; return its ordinal among the seller's of this operation, and how often its key was sent."""
    row = await tx.one(COUNT_REQUEST[operation], seller_id, operation, key)
    while row is None:
        await tx.run(ADD_REQUEST[operation], seller_id, operation, key, now_ms)
        row = await tx.one(COUNT_REQUEST[operation], seller_id, operation, key)
    return row[0], row[1]
