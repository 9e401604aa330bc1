"""Finds what is open at acquirers that are not configured."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from paydesk.engine.payments.lifecycles import INQUIRIES, REFUNDS, REVERSALS
from paydesk.platform.storage.database import Transaction

FIND = f"""
SELECT o.acquirer, due.noun, due.seller_id, count(*)
  FROM (SELECT 'inquiries' AS noun, seller_id, order_id, live FROM inquiries WHERE {INQUIRIES.open}
        UNION ALL SELECT 'reversals', seller_id, order_id, live FROM reversals WHERE {REVERSALS.open}
        UNION ALL SELECT 'refunds', seller_id, order_id, live FROM refunds WHERE {REFUNDS.open}
        UNION ALL SELECT 'confirmations', seller_id, order_id, live FROM confirmations
                   WHERE status IN ('provisional', 'confirming')) due
  JOIN orders o ON o.seller_id = due.seller_id AND o.order_id = due.order_id
 WHERE due.live = 1 AND o.acquirer IS NOT NULL
 GROUP BY o.acquirer, due.noun, due.seller_id ORDER BY o.acquirer, due.noun, due.seller_id"""


@dataclass(frozen=True, slots=True)
class Unserved:
    """The number of open inquiries, reversals, refunds or confirmations of a seller at an acquirer."""

    acquirer: str
    noun: str
    seller_id: int
    count: int


async def find(tx: Transaction, configured: Collection[str]) -> list[Unserved]:
    """Return what is open at other acquirers than those configured."""
    return [Unserved(*row) for row in await tx.all(FIND) if row[0] not in configured]
