"""SQL that records the outcomes of attempts, and schedules the next ones."""

from __future__ import annotations

from paydesk.storage.database import Transaction
from paydesk.webhooks import schedule
from paydesk.webhooks.schedule import PARKED_MS, PENDING
from paydesk.webhooks.sending import Outcome
from paydesk.webhooks.store import Claimed

# Not bound to the claim: a 2xx after the claim expired counts.
DELIVERED = f"""
UPDATE deliveries SET {schedule.DELIVER.target}, ended_ms = $3, claimed_until_ms = 0
 WHERE seller_id = $1 AND delivery_id = $2 AND {schedule.DELIVER.guard}
"""

# A failure counts only if no later attempt has begun.
_LATEST = f"WHERE seller_id = $1 AND delivery_id = $2 AND attempts = $3 AND {PENDING}"

FAILED = f"UPDATE deliveries SET next_ms = $4, claimed_until_ms = 0 {_LATEST}"

EXHAUSTED = f"UPDATE deliveries SET {schedule.EXHAUST.target}, ended_ms = $4, claimed_until_ms = 0 {_LATEST}"

# Nothing was sent, so the attempt does not count.
RELEASE_UNSENT = f"UPDATE deliveries SET claimed_until_ms = 0, attempts = attempts - 1 {_LATEST}"

RELEASE = f"UPDATE deliveries SET claimed_until_ms = 0 {_LATEST}"

# Deliveries of the same order that wait: only those behind this one, because it was the first that was pending.
PULL_ORDER_FORWARD = f"""
UPDATE deliveries SET next_ms = $4
 WHERE seller_id = $1 AND order_id = $3 AND subscription_id = $2 AND {PENDING}
   AND next_ms > $4 AND next_ms < {PARKED_MS}
"""

# Inserts nothing for a delivery that was removed while it was sent, by a reset in development.
ADD_ATTEMPT = """
INSERT INTO attempts (seller_id, delivery_id, attempt, started_ms, duration_ms, answer_status, answer_body, error,
                      request)
SELECT seller_id, delivery_id, CAST($3 AS bigint), CAST($4 AS bigint), CAST($5 AS bigint), CAST($6 AS bigint),
       CAST($7 AS text), CAST($8 AS text), CAST($9 AS text)
  FROM deliveries WHERE seller_id = $1 AND delivery_id = $2
ON CONFLICT DO NOTHING
"""


async def add_attempt(tx: Transaction, claimed: Claimed, outcome: Outcome, milliseconds: int, request: str) -> None:
    """Insert an attempt, unless it is recorded already. `request` is JSON."""
    await tx.run(
        ADD_ATTEMPT,
        claimed.seller_id,
        claimed.delivery_id,
        claimed.attempt,
        claimed.claimed_ms,
        milliseconds,
        outcome.status,
        outcome.body,
        outcome.error,
        request,
    )


async def delivered(tx: Transaction, claimed: Claimed, now_ms: int) -> None:
    """Mark as delivered. Make the order's later deliveries due."""
    await tx.run(DELIVERED, claimed.seller_id, claimed.delivery_id, now_ms)
    await _pull_order_forward(tx, claimed, now_ms)


async def failed(tx: Transaction, claimed: Claimed, next_ms: int) -> None:
    """Schedule the next attempt."""
    await tx.run(FAILED, claimed.seller_id, claimed.delivery_id, claimed.attempt, next_ms)


async def exhausted(tx: Transaction, claimed: Claimed, now_ms: int) -> None:
    """Mark as exhausted. Make the order's later deliveries due."""
    if await tx.run(EXHAUSTED, claimed.seller_id, claimed.delivery_id, claimed.attempt, now_ms):
        await _pull_order_forward(tx, claimed, now_ms)


async def release(tx: Transaction, claimed: Claimed) -> None:
    """Release a claim before it expires."""
    await tx.run(RELEASE, claimed.seller_id, claimed.delivery_id, claimed.attempt)


async def release_unsent(tx: Transaction, claimed: Claimed) -> None:
    """Release a claim for which nothing was sent."""
    await tx.run(RELEASE_UNSENT, claimed.seller_id, claimed.delivery_id, claimed.attempt)


async def _pull_order_forward(tx: Transaction, claimed: Claimed, now_ms: int) -> None:
    arguments = (claimed.seller_id, claimed.subscription_id, claimed.order_id, now_ms)
    if await tx.run(PULL_ORDER_FORWARD, *arguments):
        tx.notify("deliveries")
