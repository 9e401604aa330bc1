"""The statements that find what needs attention, for all sellers; each reads an index of open rows."""

from __future__ import annotations

from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status import CHECK_ON_TERMINAL
from paydesk.engine.orders.store import LIVE_STATUSES
from paydesk.engine.payments.inquiry_store import OpenInquiry
from paydesk.engine.payments.lifecycles import INQUIRIES, REFUSED
from paydesk.engine.terminals.presence import AGE_MS, DEGRADED_SECONDS
from paydesk.engine.terminals.print_actions.action import PRINT_ACTIONS, PrintAction
from paydesk.engine.webhooks import schedule
from paydesk.operators.orders.outcomes import CONFIRMATION, INQUIRY, ORDER_STATUS, REFUND, REVERSAL, Work
from paydesk.platform.storage.database import Transaction

ROWS_MAX = 100
DELIVERIES_MAX = 1000
USED_MS = 24 * 3_600_000
"""Terminals that were last seen longer ago are not counted."""
TOGETHER_MS, TOGETHER_MIN = 5 * 60_000, 10
"""Half of a group of terminals, and so many, went offline within this time or twice that: shops close more slowly."""

_ORDER = ", ".join(f"o.{name}" for name in Order.__struct_fields__)
_INQUIRY = ", ".join(f"i.{name}" for name in OpenInquiry.__struct_fields__)
_ACTION = ", ".join(f"a.{name}" for name in PrintAction.__struct_fields__)

# $1: the time since which a cancel request is unanswered.
ORDERS = f"""
SELECT {_ORDER}, {_INQUIRY}, t.store_id, t.last_seen_ms, {AGE_MS} FROM orders o
  LEFT JOIN terminals t ON t.seller_id = o.seller_id AND t.terminal_id = o.terminal_id
  LEFT JOIN inquiries i ON i.seller_id = o.seller_id AND i.order_id = o.order_id AND i.{INQUIRIES.open}
 WHERE o.status IN ({LIVE_STATUSES})
   AND (o.status_detail = '{CHECK_ON_TERMINAL.detail}' OR o.cancel_requested_ms <= $1
        OR t.last_seen_ms IS NULL OR {AGE_MS} > {DEGRADED_SECONDS * 1000})
 ORDER BY CASE WHEN o.status_detail = '{CHECK_ON_TERMINAL.detail}' THEN 0 ELSE 1 END, o.updated_ms LIMIT $2"""


def _slow(work: Work, since: str) -> str:
    """Return the statement of open rows since $1, and of later ones with an alert. `next_ms` is named for the index."""
    return work.select(
        f"{work.open} AND next_ms > 0 AND ({since} <= $1 OR alerted_ms IS NOT NULL) ORDER BY {since} LIMIT $2"
    )


REFUNDS = _slow(REFUND, "created_ms")
REVERSALS = _slow(REVERSAL, "created_ms")
CONFIRMATIONS = _slow(CONFIRMATION, "approved_ms")
# The payments of orders that have ended while they are being reversed: the inquiries do that.
UNDOING = INQUIRY.select(
    f"{INQUIRY.open} AND next_ms > 0 AND reversing_ms <= $1 AND {ORDER_STATUS.format('inquiries')}"
    f" NOT IN ({LIVE_STATUSES}) ORDER BY reversing_ms LIMIT $2"
)
REFUSED_CONFIRMATIONS = CONFIRMATION.select(f"{REFUSED} AND resolution IS NULL ORDER BY ended_ms LIMIT $1")

# The deliveries that were exhausted since $1; at most $2 are counted.
_EXHAUSTED = f"d.subscription_id = s.subscription_id AND d.{schedule.EXHAUSTED} AND d.ended_ms >= $1"
SUBSCRIPTIONS = f"""
SELECT subscription_id, live, url, paused_ms, paused_by, failing_since_ms,
       (SELECT COUNT(*) FROM (SELECT 1 FROM deliveries d WHERE {_EXHAUSTED} LIMIT $2) AS counted),
       (SELECT MIN(d.ended_ms) FROM deliveries d WHERE {_EXHAUSTED})
  FROM subscriptions s WHERE deleted_ms IS NULL ORDER BY subscription_id"""

# $1: print actions that have not changed since then.
ACTIONS = f"""
SELECT {_ACTION}, {AGE_MS} FROM print_actions a
  JOIN terminals t ON t.seller_id = a.seller_id AND t.terminal_id = a.terminal_id
 WHERE {PRINT_ACTIONS.open.replace("status", "a.status")} AND a.updated_ms <= $1 ORDER BY a.updated_ms LIMIT $2"""


def _gone(keys: str, seller: str = "CAST(NULL AS bigint)", store: str = "CAST(NULL AS bigint)") -> str:
    """Return the statement of the groups of terminals with equal `keys` that went offline together."""
    return f"""
SELECT live, {seller} AS seller_id, {store} AS store_id,
       MAX(offline) AS offline, MAX(total) AS total, MIN(since_ms) AS since_ms
  FROM (SELECT {keys}, part, MIN(since_ms) AS since_ms, SUM(SUM(count)) OVER (PARTITION BY {keys}) AS total,
               SUM(SUM(CASE WHEN part > 0 THEN count ELSE 0 END)) OVER (PARTITION BY {keys}) AS offline,
               SUM(SUM(count)) OVER (
                   PARTITION BY {keys} ORDER BY part RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING) AS gone
          FROM seen GROUP BY {keys}, part) AS parts
 WHERE part > 0 AND gone >= {TOGETHER_MIN} AND gone * 2 >= total GROUP BY {keys}"""


# Reads one row a terminal, along the key: with an index of `last_seen_ms` every sign of life would cost more. `part` is
# the part of the time in which a terminal was last seen, 0 if it is online.
TERMINALS = f"""
WITH seen AS (
SELECT t.live, t.seller_id, t.store_id, COUNT(*) AS count, MIN(t.last_seen_ms) AS since_ms,
       CASE WHEN {AGE_MS} > {DEGRADED_SECONDS * 1000} THEN t.last_seen_ms / {TOGETHER_MS} ELSE 0 END AS part
  FROM sellers s JOIN terminals t ON t.seller_id = s.seller_id WHERE {AGE_MS} <= {USED_MS} GROUP BY 1, 2, 3, 6)
SELECT g.live, g.seller_id, g.store_id, CAST(g.offline AS bigint), CAST(g.total AS bigint), g.since_ms, s.name, h.name
  FROM ({_gone("live, seller_id, store_id", "seller_id", "store_id")} UNION ALL
{_gone("live, seller_id", "seller_id")} UNION ALL
{_gone("live")}) AS g
  LEFT JOIN sellers s ON s.seller_id = g.seller_id
  LEFT JOIN stores h ON h.seller_id = g.seller_id AND h.store_id = g.store_id
 ORDER BY g.total DESC, g.store_id IS NULL, g.seller_id IS NULL LIMIT $1"""


async def orders(
    tx: Transaction, canceled_before_ms: int, limit: int
) -> list[tuple[Order, OpenInquiry | None, int | None, int | None, int | None]]:
    """Return open orders with an unknown outcome, an unanswered cancel request, or a terminal that is offline.

    Each has its open inquiry, its terminal's store, when the terminal was last seen, and how long ago that was.
    """
    width = len(Order.__struct_fields__)
    return [
        (Order(*row[:width]), OpenInquiry(*row[width:-3]) if row[width] is not None else None, *row[-3:])
        for row in await tx.all(ORDERS, canceled_before_ms, limit)
    ]


async def actions(tx: Transaction, before_ms: int, limit: int) -> list[tuple[PrintAction, int | None]]:
    """Return the open print actions that have not changed since a time, with how long ago their terminals were seen."""
    return [(PrintAction(*action), age_ms) for *action, age_ms in await tx.all(ACTIONS, before_ms, limit)]
