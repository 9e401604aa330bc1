"""Pauses of subscriptions: rows only. Deliveries of a paused subscription stay pending and are kept for 30 days.

A pause or a resume changes the subscription's row, whatever the number of its deliveries. The delivery worker then
moves these in bounded steps (see `webhooks.parking`): it finds them by an index, so a crash interrupts nothing.
"""

from __future__ import annotations

from typing import Literal

from paydesk.platform.storage.database import Transaction

PausedBy = Literal["operator", "failures"]

PAUSE = """
UPDATE subscriptions SET paused_ms = $3, paused_by = $2
 WHERE subscription_id = $1 AND paused_ms IS NULL AND deleted_ms IS NULL
"""

RESUME = """
UPDATE subscriptions SET paused_ms = NULL, paused_by = NULL, failing_since_ms = NULL, failed_ms = NULL, forward_ms = 0
 WHERE subscription_id = $1 AND paused_ms IS NOT NULL AND deleted_ms IS NULL
"""


async def pause(tx: Transaction, subscription_id: str, by: PausedBy, now_ms: int) -> bool:
    """Pause a subscription; return False if it does not exist or is paused already. Attempts in progress end."""
    return bool(await tx.run(PAUSE, subscription_id, by, now_ms))


async def resume(tx: Transaction, subscription_id: str) -> bool:
    """Resume a subscription; return False if it does not exist or is not paused.

    The schedule of each of its pending deliveries starts anew, in order per order.
    """
    if not await tx.run(RESUME, subscription_id):
        return False
    tx.notify("deliveries")
    return True
