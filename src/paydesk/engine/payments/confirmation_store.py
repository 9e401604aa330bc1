"""The SQL of confirmations: one for each order whose acquirer gave a provisional approval.

The row is the decision on the approval: of two that decide, the first conditional UPDATE counts. It is always made with
the order's row locked, in the transaction of the order's move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.acquirer import Approved
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.jobs import OpenJob
from paydesk.engine.payments.lifecycles import CONFIRMING, PROVISIONAL, REFUNDS, REFUSED, UNDONE, ConfirmationStatus
from paydesk.engine.payments.outcomes import Paid, json_or_none
from paydesk.platform.storage.database import Transaction

if TYPE_CHECKING:
    from paydesk.platform.settings import Settings

DECISION_MS_MIN = 15_000
"""Minimum time that the terminal has to report after the approval."""


class Confirmation(OpenJob, frozen=True):
    """One row of `confirmations`."""

    status: ConfirmationStatus
    amount_minor: int
    currency: str
    reference_id: str
    authorization_code: str | None
    payment_method: str | None
    card: str | None
    issuer_data: bytes | None
    chip_data: bytes | None
    approved_ms: int
    decide_by_ms: int
    deadline_ms: int | None
    ended_ms: int | None

    def paid(self, tip_minor: int) -> Paid:
        """Return the details of the approval; `tip_minor` is the tip in it."""
        method, card = (
            None if text is None else msgspec.json.decode(text) for text in (self.payment_method, self.card)
        )
        return Paid(self.reference_id, self.authorization_code, method, card, tip_minor)


COLUMNS = ", ".join(Confirmation.__struct_fields__)

# Of two nodes' answers the first counts.
INSERT = """
INSERT INTO confirmations (seller_id, order_id, live, status, amount_minor, currency, reference_id, authorization_code,
                           payment_method, card, issuer_data, approved_ms, decide_by_ms, deadline_ms, next_ms,
                           created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $12) ON CONFLICT DO NOTHING"""

FIND = f"SELECT {COLUMNS} FROM confirmations WHERE seller_id = $1 AND order_id = $2"

# A worker may just have claimed the row, to undo the approval.
_CONFIRM = f"""
SET {CONFIRMING}, chip_data = $4, attempts = 0, claimed_until_ms = 0, next_ms = $3, ended_ms = NULL
 WHERE seller_id = $1 AND order_id = $2"""
BEGIN_CONFIRMING = f"UPDATE confirmations {_CONFIRM} AND {PROVISIONAL}"
RECONFIRM = f"UPDATE confirmations {_CONFIRM} AND {UNDONE}"

UNDO = f"""
UPDATE confirmations SET {UNDONE}, chip_data = $3, claimed_until_ms = 0
 WHERE seller_id = $1 AND order_id = $2 AND {PROVISIONAL}"""

# The data for the chip and for the issuer are no longer needed.
END = f"""
UPDATE confirmations SET status = $3, ended_ms = $4, claimed_until_ms = 0, issuer_data = NULL, chip_data = NULL
 WHERE seller_id = $1 AND order_id = $2 AND {CONFIRMING}"""

FORGET = """
UPDATE confirmations SET ended_ms = COALESCE(ended_ms, $3), issuer_data = NULL, chip_data = NULL
 WHERE seller_id = $1 AND order_id = $2"""

# Refunds have waited for the confirmation.
RELEASE_REFUNDS = f"""
UPDATE refunds SET next_ms = $3 WHERE seller_id = $1 AND order_id = $2 AND {REFUNDS.open} AND attempts = 0"""

RESOLVE = f"""
UPDATE confirmations SET resolution = $3
 WHERE seller_id = $1 AND order_id = $2 AND {REFUSED} AND resolution IS NULL"""


def decide_by_ms(order: Order, approved_ms: int, deadline_ms: int | None, settings: Settings) -> int:
    """Return the time until which the terminal's result decides on an approval; then it is undone."""
    assert order.permitted_ms is not None, "an approval follows a permit"
    until_ms = order.permitted_ms + settings.unknown_after_seconds * 1000
    if deadline_ms is not None:
        until_ms = min(until_ms, deadline_ms - settings.confirm_margin_seconds * 1000)
    return max(until_ms, approved_ms + DECISION_MS_MIN)


async def add(
    change: Change,
    order: Order,
    status: Literal["provisional", "confirming", "undone"],
    approved: Approved,
    paid: Paid,
    capabilities: Capabilities,
    settings: Settings,
) -> bool:
    """Insert the acquirer's approval as of now; False if the order has an approval."""
    deadline_ms = capabilities.confirm_until_ms(change.now_ms)
    until_ms = decide_by_ms(order, change.now_ms, deadline_ms, settings)
    next_ms = until_ms if status == PROVISIONAL.name else change.now_ms
    values: tuple[Any, ...] = (
        *(order.seller_id, order.order_id, order.live, status, approved.amount_minor, order.currency),
        *(approved.reference_id, approved.authorization_code, json_or_none(paid.payment_method)),
        *(json_or_none(paid.card), approved.issuer_data or None, change.now_ms, until_ms, deadline_ms, next_ms),
    )
    change.tx.notify("money")
    return bool(await change.tx.run(INSERT, *values))


async def find(tx: Transaction, order: Order) -> Confirmation | None:
    """Return the order's confirmation, or None."""
    row = await tx.one(FIND, order.seller_id, order.order_id)
    return Confirmation(*row) if row else None


async def provisional(tx: Transaction, order: Order) -> Confirmation | None:
    """Return the order's approval if its terminal has still to decide on it."""
    confirmation = await find(tx, order)
    return confirmation if confirmation is not None and confirmation.status == PROVISIONAL.name else None


async def begin_confirming(change: Change, order: Order, chip_data: bytes = b"", *, undone: bool = False) -> bool:
    """Decide for the approval, or for an approval that was `undone`; False if another decision came first."""
    sql = RECONFIRM if undone else BEGIN_CONFIRMING
    change.tx.notify("money")
    return bool(await change.tx.run(sql, order.seller_id, order.order_id, change.now_ms, chip_data or None))


async def undo(change: Change, order: Order, chip_data: bytes = b"") -> bool:
    """Decide against the approval; False if another decision came first. The caller begins to reverse it."""
    return bool(await change.tx.run(UNDO, order.seller_id, order.order_id, chip_data or None))


async def end(change: Change, confirmation: Confirmation, status: Literal["confirmed", "refused"]) -> bool:
    """End the confirmation, and let the order's refunds be sent; False if it has ended before."""
    key = confirmation.seller_id, confirmation.order_id
    change.tx.notify("money")
    ended = bool(await change.tx.run(END, *key, status, change.now_ms))
    if ended:
        await change.tx.run(RELEASE_REFUNDS, *key, change.now_ms)
    return ended


async def forget(change: Change, order: Order) -> None:
    """Delete the data for the chip and the issuer, after the approval is reversed."""
    await change.tx.run(FORGET, order.seller_id, order.order_id, change.now_ms)


async def resolve(tx: Transaction, order: Order, resolution: str) -> bool:
    """Record an operator's resolution of a refused confirmation; False if none is refused, or it is resolved."""
    return bool(await tx.run(RESOLVE, order.seller_id, order.order_id, resolution))
