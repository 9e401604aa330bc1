"""Since when a subscription has been failing, and its automatic pause after five days.

The claim reads what is stored, so a success of a subscription that does not fail needs no statement, and of failures
only the first one and one an hour write.
"""

from __future__ import annotations

from paydesk.core.clock import rfc3339
from paydesk.engine.webhooks.delivery.store import Target
from paydesk.platform import operator_events
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.storage.database import Transaction

HOUR_MS = 3_600_000
PAUSED_AFTER_MS = 5 * 24 * HOUR_MS
GAP_MS_MAX = 48 * HOUR_MS
"""Time without any failure after which the five days start anew. The longest pause of the schedule is shorter."""
REFRESH_MS = HOUR_MS
FIRST_MS = 1
"""A time before the creation of any delivery, but not 0, which starts their schedules anew."""

# $2 is now. A failure that another node recorded within the hour changes nothing.
FAILED = f"""
UPDATE subscriptions
   SET failing_since_ms = CASE WHEN failing_since_ms IS NULL OR failed_ms < CAST($2 AS bigint) - {GAP_MS_MAX}
                               THEN CAST($2 AS bigint) ELSE failing_since_ms END,
       failed_ms = CAST($2 AS bigint)
 WHERE subscription_id = $1 AND (failing_since_ms IS NULL OR failed_ms <= CAST($2 AS bigint) - {REFRESH_MS})
"""

# The worker makes deliveries that wait for a retry due, see `parking`.
RECOVERED = """
UPDATE subscriptions
   SET failing_since_ms = NULL, failed_ms = NULL, forward_ms = CASE WHEN forward_ms < $2 THEN forward_ms ELSE $2 END
 WHERE subscription_id = $1 AND failing_since_ms IS NOT NULL
"""

# A success that is recorded at the same time has cleared `failing_since_ms`.
PAUSE_FAILING = f"""
UPDATE subscriptions SET paused_ms = CAST($2 AS bigint), paused_by = 'failures'
 WHERE subscription_id = $1 AND paused_ms IS NULL AND deleted_ms IS NULL
   AND failing_since_ms <= CAST($2 AS bigint) - {PAUSED_AFTER_MS}
RETURNING failing_since_ms
"""


def is_failing(target: Target) -> bool:
    """Return whether the subscription had failed since its last success when the delivery was claimed."""
    return target.failing_since_ms is not None


async def recovered(tx: Transaction, subscription_id: str, since_ms: int = FIRST_MS) -> None:
    """Record a success of a failing subscription. Its deliveries created after `since_ms` become due."""
    if await tx.run(RECOVERED, subscription_id, since_ms):
        tx.notify("deliveries")


async def failed(tx: Transaction, subscription_id: str, target: Target, now_ms: int) -> OperatorEvent | None:
    """Record a failure. After five days without a success pause the subscription, and return the event of it."""
    since_ms, failed_ms = target.failing_since_ms, target.failed_ms
    if since_ms is None or failed_ms is None or failed_ms <= now_ms - REFRESH_MS:
        await tx.run(FAILED, subscription_id, now_ms)
    if since_ms is None or since_ms > now_ms - PAUSED_AFTER_MS:
        return None
    row = await tx.one(PAUSE_FAILING, subscription_id, now_ms)
    if row is None:
        return None
    since = rfc3339(row[0])
    event = OperatorEvent(
        "webhook_paused",
        subscription_id,
        f"No notification to this subscription has succeeded since {since}, so it was paused. Its notifications are "
        f"kept for 30 days. Repair its receiver, then run: paydesk subscriptions resume {subscription_id}",
        body={"application_id": target.application_id, "failing_since": since},
    )
    await operator_events.record(tx, event, now_ms)
    return event
