"""An order's one outcome, set by its terminal, by an inquiry or by an operator; and the alerts about it.

Each acquirer reference belongs to one order. It is claimed before the order is processed with it: an approval with
another order's reference is evidence of one payment reported twice and processes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from paydesk.engine.orders import status, store
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.store import EndedBy
from paydesk.engine.payments import reversal_store
from paydesk.engine.payments.acquirer import Approved, Card, Declined, Unknown
from paydesk.engine.payments.terms import Requested
from paydesk.platform import operator_events
from paydesk.platform.operator_events import Kind, OperatorEvent
from paydesk.platform.storage.database import Transaction

# The first transaction gets the reference; a concurrent one waits for its commit.
CLAIM = """
INSERT INTO payment_references (seller_id, live, reference_id, order_id) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING"""

HOLDER = "SELECT order_id FROM payment_references WHERE seller_id = $1 AND live = $2 AND reference_id = $3"

RELEASE = """
DELETE FROM payment_references WHERE seller_id = $1 AND live = $2 AND reference_id = $3 AND order_id = $4"""


@dataclass(frozen=True, slots=True)
class Paid:
    """Details of an approval: the acquirer's numbers, the payment method and the card's digits."""

    reference_id: str | None = None
    authorization_code: str | None = None
    payment_method: dict[str, Any] | None = None
    card: dict[str, Any] | None = None
    tip_minor: int = 0


def paid_of(approved: Approved, requested: Requested | None, *, tip_minor: int) -> Paid:
    """Return the details of an acquirer's approval; what it leaves out is as requested, if the service requested it."""
    card, method = approved.card, None
    if card is not None:
        method, digits = {"id": card.brand, "type": card.type, "installments": approved.installments}, card_digits(card)
    elif requested is not None:
        method, digits = msgspec.json.decode(requested.payment_method), msgspec.json.decode(requested.card)
    else:
        digits = None
    return Paid(approved.reference_id, approved.authorization_code, method, digits, tip_minor)


def requested_digits(requested: Requested | None) -> str | None:
    """Return the last digits of the card in an authorization that the service requested, None without one."""
    return None if requested is None else str(msgspec.json.decode(requested.card)["last_digits"])


def detail_of(declined: Declined) -> str:
    """Return the acquirer's reason as a detail of a failed payment."""
    return declined.detail if declined.detail in status.FAILED else "rejected_other_reason"


async def approve(change: Change, order: Order, paid: Paid, *, by: EndedBy) -> Order | None:
    """Process the order with its full amount and the tip. None if it has ended."""
    columns = approval_columns(paid, order, change.now_ms)
    processed = await store.end(change, status.APPROVE, order, by, **columns)
    if processed is not None and paid.reference_id is not None:
        # A result's reference is claimed already. The acquirer's own answer counts even if another order has it.
        await claim_reference(change.tx, processed, paid.reference_id)
    return processed


async def decline(
    change: Change, order: Order, *, by: EndedBy, detail: str, origin: str, last_digits: str | None = None
) -> Order | None:
    """Fail the order; nothing is charged. `last_digits` are those of the card. None if the order has ended."""
    failed = status.FAILED[detail]
    return await store.end(change, status.DECLINE, order, by, to=failed, origin=origin, last_digits=last_digits)


async def reverse_late_approval(change: Change, order: Order, approved: Approved) -> None:
    """Begin to reverse an approval by the acquirer that is not its order's payment."""
    if await reversal_store.begin(change, order, approved.amount_minor, approved.reference_id):
        message = "The acquirer approved the payment after its order had ended. The approval is being reversed."
        await alert(change, order, "late_approval", message, {"reference_id": approved.reference_id})


def card_digits(card: Card) -> dict[str, str]:
    """Return what an order stores of a card."""
    digits = {"first_digits": card.first_digits, "last_digits": card.last_digits}
    return {**digits, "entry_mode": card.entry_mode} if card.entry_mode else digits


def approval_columns(paid: Paid, order: Order, now_ms: int) -> dict[str, Any]:
    """Return the columns that an approval changes in its order."""
    return {
        "permitted_ms": order.permitted_ms or now_ms,
        "paid_ms": now_ms,
        "paid_minor": order.amount_minor + paid.tip_minor,
        "tip_minor": paid.tip_minor,
        "reference_id": paid.reference_id,
        "authorization_code": paid.authorization_code,
        "payment_method": json_or_none(paid.payment_method),
        "card": json_or_none(paid.card),
        "last_digits": None if paid.card is None else paid.card["last_digits"],
        "origin": None,
    }


async def claim_reference(tx: Transaction, order: Order, reference_id: str) -> bool:
    """Claim the acquirer's reference for the order; False if another order has it."""
    if await tx.run(CLAIM, order.seller_id, order.live, reference_id, order.order_id):
        return True
    row = await tx.one(HOLDER, order.seller_id, order.live, reference_id)
    return row is not None and row[0] == order.order_id


async def release_reference(tx: Transaction, order: Order, reference_id: str) -> None:
    """Release a reference with which the order was not processed, so that another order can claim it."""
    await tx.run(RELEASE, order.seller_id, order.live, reference_id, order.order_id)


async def alert(change: Change, order: Order, kind: Kind, message: str, body: str | dict[str, Any] = "{}") -> None:
    """Record an operator event about the order. `body` is evidence and must not contain secrets."""
    event = OperatorEvent(kind, order.order_id, message, order.seller_id, body)
    await operator_events.record(change.tx, event, change.now_ms)


async def alert_differing(change: Change, order: Order, answer: Unknown, body: dict[str, Any]) -> None:
    """Record, once an hour, that the acquirer's answers are not those of the requests about the order."""
    message = f"The acquirer's answer is not that of the request: {answer.reason}. It is not believed."
    event = OperatorEvent("acquirer_answer_differs", order.order_id, message, order.seller_id, body)
    await operator_events.record_hourly(change.tx, event, change.now_ms)


def json_or_none(document: dict[str, Any] | None) -> str | None:
    """Return the document as a column has it."""
    return None if document is None else msgspec.json.encode(document).decode()
