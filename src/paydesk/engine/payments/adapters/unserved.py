"""Finds open jobs at acquirers that are not configured."""

from __future__ import annotations

from collections.abc import Collection

from paydesk.engine.payments.lifecycles import CONFIRMATIONS, INQUIRIES, REFUNDS, REVERSALS
from paydesk.platform.storage.database import Row, Transaction

_OPEN = " UNION ALL ".join(
    f"SELECT '{jobs.table}' AS noun, seller_id, order_id, live FROM {jobs.table} WHERE {jobs.open}"
    for jobs in (INQUIRIES, REVERSALS, REFUNDS, CONFIRMATIONS)
)

FIND = f"""
SELECT o.acquirer, due.noun, due.seller_id, count(*)
  FROM ({_OPEN}) due
  JOIN orders o ON o.seller_id = due.seller_id AND o.order_id = due.order_id
 WHERE due.live = 1 AND o.acquirer IS NOT NULL
 GROUP BY o.acquirer, due.noun, due.seller_id ORDER BY o.acquirer, due.noun, due.seller_id"""


async def find(tx: Transaction, configured: Collection[str]) -> list[Row]:
    """Return acquirer, table, seller and number of the open jobs at other acquirers than those configured."""
    return [row for row in await tx.all(FIND) if row[0] not in configured]
