"""The number of pending and exhausted deliveries of subscriptions, counted up to a limit."""

from __future__ import annotations

from paydesk.engine.webhooks.schedule import EXHAUSTED, PENDING
from paydesk.platform.storage.database import Row, Transaction

COUNTED_MAX = 1000


def _count(state: str) -> str:
    """Return the number of a subscription's deliveries in this state; an index has them."""
    return f"""(SELECT count(*) FROM (SELECT 1 FROM deliveries d
                WHERE d.subscription_id = s.subscription_id AND d.{state} LIMIT {COUNTED_MAX}) AS counted)"""


PENDING_COUNT, EXHAUSTED_COUNT = _count(str(PENDING)), _count(str(EXHAUSTED))
"""The numbers of deliveries of a row `s` with a subscription."""

COUNTS = f"""
SELECT s.subscription_id, {PENDING_COUNT}, {EXHAUSTED_COUNT}
  FROM subscriptions s WHERE s.subscription_id BETWEEN $1 AND $2 AND s.deleted_ms IS NULL
"""


async def counted(tx: Transaction, first: str, last: str) -> list[Row]:
    """Return of each subscription with an id from `first` to `last` its id, and the numbers of both."""
    return list(await tx.all(COUNTS, first, last))
