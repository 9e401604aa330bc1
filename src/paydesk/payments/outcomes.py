"""An order's one outcome, whoever brings it: its terminal, the acquirer or an operator. Later ones find it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from paydesk.orders import status, store
from paydesk.orders.order import Order
from paydesk.payments import references
from paydesk.payments.acquirer import Card
from paydesk.storage.database import Transaction

By = Literal["result", "inquiry", "operator"]


@dataclass(frozen=True, slots=True)
class Paid:
    """What is known of an approval: the acquirer's numbers, what was paid with, the digits of the card."""

    reference_id: str | None = None
    authorization_code: str | None = None
    payment_method: dict[str, Any] | None = None
    card: dict[str, Any] | None = None


async def approve(tx: Transaction, order: Order, now_ms: int, paid: Paid, *, by: By, where: str = "") -> Order | None:
    """Processed, paid as it was asked for; None where it has ended, or `where` does not hold ($3 is `now_ms`)."""
    changes = changes_of(paid, order, now_ms)
    processed = await store.move(tx, status.APPROVE, order, now_ms, where=where, **changes)
    if processed is not None and paid.reference_id is not None:
        # Of a result it is claimed already. The acquirer's own word stands, whoever used its number before.
        await references.claim(tx, processed, paid.reference_id)
    return await _ended(tx, processed, by, now_ms)


def digits_of(card: Card) -> dict[str, str]:
    """What an order keeps of a card."""
    digits = {"first_digits": card.first_digits, "last_digits": card.last_digits}
    return {**digits, "entry_mode": card.entry_mode} if card.entry_mode else digits


def changes_of(paid: Paid, order: Order, now_ms: int) -> dict[str, Any]:
    """What an approval changes of its order."""
    return {
        "permitted_ms": order.permitted_ms or now_ms,
        "paid_ms": now_ms,
        "paid_minor": order.amount_minor,
        "tip_minor": 0,
        "reference_id": paid.reference_id,
        "authorization_code": paid.authorization_code,
        "payment_method": _json(paid.payment_method),
        "card": _json(paid.card),
        "origin": None,
    }


async def decline(tx: Transaction, order: Order, now_ms: int, *, by: By, detail: str, origin: str) -> Order | None:
    """Failed, nothing is charged; None where it has ended."""
    failed = await store.move(tx, status.DECLINE, order, now_ms, to=status.FAILED[detail], origin=origin)
    return await _ended(tx, failed, by, now_ms)


async def _ended(tx: Transaction, order: Order | None, by: By, now_ms: int) -> Order | None:
    if order is not None:
        await store.end_lease(tx, order, by, now_ms)
    return order


def _json(document: dict[str, Any] | None) -> str | None:
    return None if document is None else msgspec.json.encode(document).decode()
