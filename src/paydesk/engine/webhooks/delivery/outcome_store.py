"""SQL that records the outcomes of attempts, and schedules the next ones."""

from __future__ import annotations

from paydesk.engine.webhooks import schedule
from paydesk.engine.webhooks.delivery.sending import Outcome
from paydesk.engine.webhooks.delivery.store import Claimed
from paydesk.engine.webhooks.schedule import OF_RECEIVER, PARKED_MS, PENDING, PENDING_OF_ORDER
from paydesk.platform.storage.database import Transaction

# Not bound to the claim: a 2xx after the claim expired counts.
DELIVERED = f"""
UPDATE deliveries SET {schedule.DELIVER.target}, ended_ms = $3, claimed_until_ms = 0
 WHERE seller_id = $1 AND delivery_id = $2 AND {schedule.DELIVER.guard}
"""

# A failure counts only if no later attempt has begun.
_LATEST = f"WHERE seller_id = $1 AND delivery_id = $2 AND attempts = $3 AND {PENDING}"

FAILED = f"UPDATE deliveries SET next_ms = $4, claimed_until_ms = 0 {_LATEST}"

_OF_ORDER = f"WHERE seller_id = $1 AND order_id = $3 AND {OF_RECEIVER} AND {PENDING_OF_ORDER}"

# The order's later deliveries wait as long. Otherwise each claim would pass all those of a backlog that fails.
DEFER_LATER = f"""
UPDATE deliveries SET next_ms = $5
 {_OF_ORDER} AND next_ms < $5
   AND version > (SELECT failed.version FROM deliveries failed WHERE failed.seller_id = $1 AND failed.delivery_id = $4)
"""

# A newer version of the order waits.
SUPERSEDED = f"""
UPDATE deliveries SET {schedule.SUPERSEDE.target}, ended_ms = $4, claimed_until_ms = 0 {_LATEST}
   AND EXISTS (SELECT 1 FROM deliveries newer
                WHERE newer.seller_id = $1 AND newer.order_id = deliveries.order_id
                  AND newer.version > deliveries.version AND newer.subscription_id || '' = deliveries.subscription_id
                  AND newer.{PENDING_OF_ORDER})
"""

EXHAUSTED = f"UPDATE deliveries SET {schedule.EXHAUST.target}, ended_ms = $4, claimed_until_ms = 0 {_LATEST}"

# Nothing was sent, so the attempt does not count.
RELEASE_UNSENT = f"UPDATE deliveries SET claimed_until_ms = 0, attempts = attempts - 1 {_LATEST}"

RELEASE = f"UPDATE deliveries SET claimed_until_ms = 0 {_LATEST}"

# Claims of attempts, resends included. The development kit holds back others, which have no attempt yet.
RELEASE_ALL = f"""
UPDATE deliveries SET claimed_until_ms = 0
 WHERE claimed_until_ms > 0 AND attempts > 0 AND ({PENDING} OR resend_ms IS NOT NULL)
"""

# Deliveries of the same order that wait: only those behind this one, because it was the first that was pending.
PULL_ORDER_FORWARD = f"""
UPDATE deliveries SET next_ms = $4
 {_OF_ORDER} AND next_ms > $4 AND next_ms < {PARKED_MS}
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


async def failed(tx: Transaction, claimed: Claimed, now_ms: int, next_ms: int) -> None:
    """Schedule the next attempt, or supersede by a newer version that waits."""
    attempt = claimed.seller_id, claimed.delivery_id, claimed.attempt
    failures = claimed.attempt - claimed.uncounted
    if failures >= schedule.SUPERSEDED_AFTER_ATTEMPTS and await tx.run(SUPERSEDED, *attempt, now_ms):
        return await _pull_order_forward(tx, claimed, now_ms)
    if await tx.run(FAILED, *attempt, next_ms):
        order = claimed.seller_id, claimed.subscription_id, claimed.order_id
        await tx.run(DEFER_LATER, *order, claimed.delivery_id, next_ms)
    return None


async def exhausted(tx: Transaction, claimed: Claimed, now_ms: int) -> None:
    """Mark as exhausted. Make the order's later deliveries due."""
    if await tx.run(EXHAUSTED, claimed.seller_id, claimed.delivery_id, claimed.attempt, now_ms):
        await _pull_order_forward(tx, claimed, now_ms)


async def release(tx: Transaction, claimed: Claimed) -> None:
    """Release a claim before it expires."""
    await tx.run(RELEASE, claimed.seller_id, claimed.delivery_id, claimed.attempt)


async def release_all(tx: Transaction) -> None:
    """Release all claims, when no process can be making an attempt."""
    await tx.run(RELEASE_ALL)


async def release_unsent(tx: Transaction, claimed: Claimed) -> None:
    """Release a claim for which nothing was sent."""
    await tx.run(RELEASE_UNSENT, claimed.seller_id, claimed.delivery_id, claimed.attempt)


async def _pull_order_forward(tx: Transaction, claimed: Claimed, now_ms: int) -> None:
    arguments = (claimed.seller_id, claimed.subscription_id, claimed.order_id, now_ms)
    if await tx.run(PULL_ORDER_FORWARD, *arguments):
        tx.notify("deliveries")
