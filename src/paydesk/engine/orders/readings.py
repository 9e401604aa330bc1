"""Open orders by status, the slots of terminals by the time that they are held, and what the orders' workers owe."""

from __future__ import annotations

from itertools import pairwise

from paydesk.engine.orders.expiry import CANCEL_TIMEOUT, EXPIRY, UNKNOWN_OUTCOME
from paydesk.engine.orders.status import LIVE
from paydesk.engine.orders.store import LIVE_STATUSES
from paydesk.engine.terminals.print_actions.action import PRINT_ACTIONS
from paydesk.platform.metrics.database import COUNTED_MAX, DatabaseGauge, Moment, Sample
from paydesk.platform.storage.database import Transaction

ORDERS_OPEN = DatabaseGauge(
    "paydesk_orders_open", f"Orders that have not ended, counted up to {COUNTED_MAX}.", ("status",)
)
SLOTS_HELD = DatabaseGauge(
    "paydesk_slots_held",
    f"Terminals with an order or a print action, by its age; of each up to {COUNTED_MAX} are counted.",
    ("age",),
)
AGES_MS = {"under_1m": 60_000, "under_5m": 300_000, "under_1h": 3_600_000}
OLDEST = "over_1h"

# $1 is now. One index has the open orders, one the open print actions.
HELD = f"""
SELECT {", ".join(f"COUNT(CASE WHEN status = '{status}' THEN 1 END)" for status in LIVE)},
       {", ".join(f"COUNT(CASE WHEN created_ms > CAST($1 AS bigint) - {age_ms} THEN 1 END)" for age_ms in AGES_MS.values())}, COUNT(*)
  FROM (SELECT * FROM (SELECT status, created_ms FROM orders WHERE status IN ({LIVE_STATUSES}) LIMIT {COUNTED_MAX})
                      AS of_orders
         UNION ALL
        SELECT * FROM (SELECT 'printing', created_ms FROM print_actions WHERE {PRINT_ACTIONS.open} LIMIT {COUNTED_MAX})
                      AS of_actions) AS held"""


async def _held(tx: Transaction, moment: Moment) -> list[Sample]:
    row = await tx.one(HELD, moment.now_ms)
    assert row is not None, "an aggregate has a row"
    orders = [Sample(ORDERS_OPEN, (status,), count) for status, count in zip(LIVE, row, strict=False)]
    by_age = zip((*AGES_MS, OLDEST), pairwise((0, *row[len(LIVE) :])), strict=True)
    return [*orders, *(Sample(SLOTS_HELD, (age,), count - younger) for age, (younger, count) in by_age)]


async def _owed(tx: Transaction, moment: Moment) -> list[Sample]:
    deadlines = {"expiry": EXPIRY, "unknown_outcome": UNKNOWN_OUTCOME, "cancel_timeout": CANCEL_TIMEOUT}
    return [moment.owed(f"orders.{name}", await one.first_due_ms(tx, moment)) for name, one in deadlines.items()]


READINGS = (_held, _owed)
