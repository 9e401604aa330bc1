"""The SQL of inquiries: one for each order with an unknown outcome, claimed by a worker until it has ended."""

from __future__ import annotations

import msgspec

from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.jobs import OpenJob
from paydesk.engine.payments.lifecycles import ABANDON_REVERSAL, ASKING, ENDED, INQUIRIES, REVERSING, InquiryOutcome
from paydesk.platform.storage.database import Transaction


class Inquiry(OpenJob, frozen=True):
    """One open row of `inquiries`.

    `reversing_ms`: since then the payment is being reversed at the acquirer, and no approval processes the order.
    `charged_minor`: the amount that the acquirer has approved, and that is reversed.
    """

    reason: str
    reversing_ms: int | None = None
    charged_minor: int | None = None


class OpenInquiry(msgspec.Struct, frozen=True):
    """The next attempt of an open inquiry, or the reversal that began at `reversing_ms`."""

    created_ms: int
    next_ms: int
    reversing_ms: int | None
    reason: str


OPEN = f"""
SELECT {", ".join(OpenInquiry.__struct_fields__)} FROM inquiries
 WHERE seller_id = $1 AND order_id = $2 AND {INQUIRIES.open}"""

# From the first time on no result can approve the order.
BEGIN_REVERSING = f"""
UPDATE inquiries SET reversing_ms = COALESCE(reversing_ms, $3), charged_minor = $4
 WHERE seller_id = $1 AND order_id = $2 AND {INQUIRIES.open}"""

CHARGED = f"""
UPDATE inquiries SET charged_minor = COALESCE(charged_minor, $3)
 WHERE seller_id = $1 AND order_id = $2 AND {INQUIRIES.open}"""

# The acquirer declined the reversal, so the next attempt inquires again.
ABANDON = f"""
UPDATE inquiries SET reversing_ms = NULL WHERE seller_id = $1 AND order_id = $2 AND {ABANDON_REVERSAL.guard}"""

HURRY = f"""
UPDATE inquiries SET next_ms = $3 WHERE seller_id = $1 AND order_id = $2 AND {INQUIRIES.open} AND next_ms > $3"""

END = f"""
UPDATE inquiries SET ended_ms = $3, outcome = $4, claimed_until_ms = 0
 WHERE seller_id = $1 AND order_id = $2 AND {INQUIRIES.open}"""

SKIP = """
INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, created_ms, ended_ms, outcome)
VALUES ($1, $2, $3, 'the outcome is simulated', 0, $4, $4, $4, $5) ON CONFLICT DO NOTHING"""

STATUS = f"""
SELECT CASE WHEN {ENDED} THEN '{ENDED.name}' WHEN {REVERSING} THEN '{REVERSING.name}' ELSE '{ASKING.name}' END, outcome
  FROM inquiries WHERE seller_id = $1 AND order_id = $2"""


async def begin_reversing(change: Change, inquiry: Inquiry, charged_minor: int) -> bool:
    """Record the intent to reverse the payment, and its amount; False if the inquiry has ended."""
    key = inquiry.seller_id, inquiry.order_id
    return bool(await change.tx.run(BEGIN_REVERSING, *key, change.now_ms, charged_minor))


async def keep_charged(change: Change, order: Order, charged_minor: int) -> None:
    """Record the amount that the acquirer says it has charged: it may be impossible to inquire about it."""
    await change.tx.run(CHARGED, order.seller_id, order.order_id, charged_minor)


async def hurry(change: Change, order: Order) -> None:
    """Make the next attempt of the order's inquiry due now."""
    await change.tx.run(HURRY, order.seller_id, order.order_id, change.now_ms)
    change.tx.notify("money")


async def abandon_reversal(tx: Transaction, inquiry: Inquiry) -> None:
    """Withdraw the intent to reverse the payment."""
    await tx.run(ABANDON, inquiry.seller_id, inquiry.order_id)


async def end(change: Change, order: Order, outcome: InquiryOutcome) -> bool:
    """End the order's inquiry; False if none is open."""
    return bool(await change.tx.run(END, order.seller_id, order.order_id, change.now_ms, outcome))


async def skip(change: Change, order: Order) -> None:
    """Insert an inquiry that has ended, so that the acquirer is not asked about the order."""
    outcome: InquiryOutcome = "forgone"
    await change.tx.run(SKIP, order.seller_id, order.order_id, order.live, change.now_ms, outcome)


async def find_open(tx: Transaction, order: Order) -> OpenInquiry | None:
    """Return the order's inquiry, None if it has none or it has ended."""
    row = await tx.one(OPEN, order.seller_id, order.order_id)
    return OpenInquiry(*row) if row else None


async def status_of(tx: Transaction, order: Order) -> str | None:
    """Return the status of the order's inquiry, None if it has none. While `reversing`, nothing approves the order."""
    row = await tx.one(STATUS, order.seller_id, order.order_id)
    return row[0] if row else None


async def outcome(tx: Transaction, order: Order) -> str | None:
    """Return how the order's inquiry ended; None if it has none or it is open."""
    row = await tx.one(STATUS, order.seller_id, order.order_id)
    return row[1] if row else None
