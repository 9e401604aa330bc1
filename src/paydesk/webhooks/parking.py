"""Parking: deliveries of a paused subscription get a `next_ms` that is never reached, and are released on resume.

The worker moves them in steps, each a transaction of one seller; the rows that remain are found by an index. A delivery
that was announced as parked while its subscription was resumed is found the same way.

Deliveries of a deleted subscription are withdrawn the same way, whenever they are due.
"""

from __future__ import annotations

from functools import partial

from paydesk.storage.database import Database, Transaction
from paydesk.webhooks.schedule import EXHAUST, PARKED_MS, PENDING, WITHDRAW
from paydesk.webhooks.store import Due

STEP_ROWS_MAX = 500

# The sellers of the first deliveries that are not parked yet, or that are parked.
SELLERS_TO_PARK = f"""
SELECT DISTINCT seller_id FROM (
       SELECT seller_id FROM deliveries
        WHERE subscription_id = $1 AND {PENDING} AND next_ms < {PARKED_MS} AND claimed_until_ms <= $2
        ORDER BY next_ms LIMIT $3) AS moved
"""
SELLERS_TO_UNPARK = f"""
SELECT DISTINCT seller_id FROM (
       SELECT seller_id FROM deliveries
        WHERE subscription_id = $1 AND {PENDING} AND next_ms >= {PARKED_MS}
        ORDER BY next_ms LIMIT $2) AS moved
"""
SELLERS_TO_WITHDRAW = f"""
SELECT DISTINCT seller_id FROM (
       SELECT seller_id FROM deliveries
        WHERE subscription_id = $1 AND {PENDING} AND claimed_until_ms <= $2
        ORDER BY next_ms LIMIT $3) AS moved
"""


def _step(change: str, where: str, limit: str) -> str:
    """Return the UPDATE of up to `limit` pending deliveries of seller $1 and subscription $2, the oldest first."""
    return f"""
UPDATE deliveries SET {change}
 WHERE seller_id = $1 AND delivery_id IN (WITH moved AS MATERIALIZED (
       SELECT d.delivery_id FROM deliveries d
        WHERE d.seller_id = $1 AND d.subscription_id = $2 AND d.{PENDING} AND {where}
        ORDER BY d.next_ms, d.created_ms LIMIT {limit} FOR UPDATE SKIP LOCKED) SELECT * FROM moved)
"""


PARK = _step(f"next_ms = {PARKED_MS}", f"d.next_ms < {PARKED_MS} AND d.claimed_until_ms <= $3", "$4")

# The schedule starts anew. The oldest delivery is sent first.
UNPARK = _step("next_ms = created_ms, uncounted = attempts", f"d.next_ms >= {PARKED_MS}", "$3")

# One that is claimed is being sent. It is found again when its attempt has failed.
WITHDRAW_SOME = _step(f"{WITHDRAW.target}, ended_ms = $4", "d.claimed_until_ms <= $3", "$5")

# SQLite reads the tables of a CROSS JOIN in this order. Parked deliveries of seller $1 created before $2 end at $3.
EXHAUST_OLD = f"""
UPDATE deliveries SET {EXHAUST.target}, ended_ms = $3
 WHERE seller_id = $1 AND delivery_id IN (WITH old AS MATERIALIZED (
       SELECT d.delivery_id FROM subscriptions s CROSS JOIN deliveries d
        WHERE s.paused_ms IS NOT NULL AND d.subscription_id = s.subscription_id AND d.seller_id = $1 AND d.{PENDING}
          AND d.next_ms = {PARKED_MS} AND d.created_ms < $2
        LIMIT $4 FOR UPDATE OF d SKIP LOCKED) SELECT * FROM old)
"""


async def move(database: Database, due: Due, wall_ms: int) -> None:
    """Park deliveries of a paused subscription, or release those of one that is not paused: one step of each seller."""
    for seller_id in await database.read(lambda tx: _sellers(tx, due, wall_ms)):
        await database.write(partial(_move, due=due, seller_id=seller_id, wall_ms=wall_ms))


async def withdraw(database: Database, due: Due, now_ms: int, wall_ms: int) -> None:
    """Withdraw pending deliveries of a deleted subscription: one step of each seller."""
    subscription_id = due.subscription_id
    sellers = await database.read(lambda tx: tx.all(SELLERS_TO_WITHDRAW, subscription_id, wall_ms, STEP_ROWS_MAX))
    for (seller_id,) in sellers:
        await database.write(partial(_withdraw, seller_id=seller_id, due=due, now_ms=now_ms, wall_ms=wall_ms))


async def exhaust_old(tx: Transaction, seller_id: int, before_ms: int, now_ms: int, limit: int) -> int:
    """End up to `limit` deliveries of paused subscriptions that were created before `before_ms`; return how many."""
    return await tx.run(EXHAUST_OLD, seller_id, before_ms, now_ms, limit)


async def _sellers(tx: Transaction, due: Due, wall_ms: int) -> list[int]:
    if due.paused:
        rows = await tx.all(SELLERS_TO_PARK, due.subscription_id, wall_ms, STEP_ROWS_MAX)
    else:
        rows = await tx.all(SELLERS_TO_UNPARK, due.subscription_id, STEP_ROWS_MAX)
    return [row[0] for row in rows]


async def _withdraw(tx: Transaction, seller_id: int, due: Due, now_ms: int, wall_ms: int) -> None:
    if await tx.run(WITHDRAW_SOME, seller_id, due.subscription_id, wall_ms, now_ms, STEP_ROWS_MAX):
        tx.notify("deliveries")  # The next step.


async def _move(tx: Transaction, due: Due, seller_id: int, wall_ms: int) -> None:
    if due.paused:
        moved = await tx.run(PARK, seller_id, due.subscription_id, wall_ms, STEP_ROWS_MAX)
    else:
        moved = await tx.run(UNPARK, seller_id, due.subscription_id, STEP_ROWS_MAX)
    if moved:
        # The next step, and on resume the deliveries.
        tx.notify("deliveries")
