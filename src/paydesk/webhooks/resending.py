"""Resends: one attempt that an operator requests, outside the order of versions and the retry schedule.

A request is a time in the delivery's row. It is cleared when the attempt is recorded, so after a crash the notification
is sent again. A claim excludes an attempt of the schedule, and the other way round.
"""

from __future__ import annotations

from paydesk.storage.database import Transaction

IS_RESEND = "resend"
"""The member of a stored request that says that the attempt was a resend."""

# Each request has another time, so one that is made during an attempt is not lost when that ends.
REQUEST = """
UPDATE deliveries SET resend_ms = CASE WHEN resend_ms >= $3 THEN resend_ms + 1 ELSE $3 END
 WHERE seller_id = $1 AND delivery_id = $2
"""


async def request(tx: Transaction, seller_id: int, delivery_id: str, now_ms: int) -> None:
    """Request a resend; a request that waits already is replaced."""
    await tx.run(REQUEST, seller_id, delivery_id, now_ms)
    tx.notify("resends")
