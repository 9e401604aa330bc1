"""Moves of a subscription's pending deliveries that follow from a change of the subscription.

While it is paused they are parked: they get a `next_ms` that is never reached. When it is resumed they are released,
and those that wait for a retry become due; these do so also after a success that ends a series of failures. When it is
deleted they are withdrawn.

The worker moves them in steps, each a transaction of one seller; the rows that remain are found by an index. A delivery
that was announced as parked while its subscription was resumed is found the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from paydesk.engine.webhooks.delivery.store import Due
from paydesk.engine.webhooks.schedule import EXHAUST, PARKED_MS, PENDING, WITHDRAW
from paydesk.platform.jobs import Claim
from paydesk.platform.retention import DAY_MS
from paydesk.platform.storage.database import Database, Transaction

STEP_ROWS_MAX = 500
STEP_SELLERS_MAX = 20
"""Maximum number of sellers in one turn of the worker, so that other subscriptions do not wait long."""
PAUSED_KEEP_DAYS = 30
"""Days that notifications of paused subscriptions are kept, by the contract. Older ones end as exhausted."""


def _sellers(where: str, limit: str) -> str:
    """Return the query of the sellers of subscription $1's first `limit` pending deliveries, and how many each has."""
    return f"""
SELECT seller_id, count(*) FROM (
       SELECT d.seller_id, d.next_ms FROM deliveries d
        WHERE d.subscription_id = $1 AND d.{PENDING} AND {where}
        ORDER BY d.next_ms LIMIT {limit}) AS moved
 GROUP BY seller_id ORDER BY min(next_ms), seller_id
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


_UNPARKED = f"d.next_ms < {PARKED_MS} AND d.claimed_until_ms"
SELLERS_TO_PARK = _sellers(f"{_UNPARKED} <= $2", "$3")
PARK = _step(f"next_ms = {PARKED_MS}", f"{_UNPARKED} <= $3", "$4")

# The schedule starts anew. The oldest delivery is sent first.
_PARKED = f"d.next_ms >= {PARKED_MS}"
SELLERS_TO_UNPARK = _sellers(_PARKED, "$2")
UNPARK = _step("next_ms = created_ms, uncounted = attempts", _PARKED, "$3")

# One that is claimed is being sent. It is found again when its attempt has failed.
SELLERS_TO_WITHDRAW = _sellers("d.claimed_until_ms <= $2", "$3")
WITHDRAW_SOME = _step(f"{WITHDRAW.target}, ended_ms = $4", "d.claimed_until_ms <= $3", "$5")

# Now, then `Due.forward_ms`.
SELLERS_TO_FORWARD = _sellers(f"d.next_ms > $2 AND d.next_ms < {PARKED_MS} AND d.created_ms > $3", "$4")
FORWARD = _step(
    "next_ms = CAST($3 AS bigint), uncounted = CASE WHEN CAST($4 AS bigint) = 0 THEN attempts ELSE uncounted END",
    f"d.next_ms > CAST($3 AS bigint) AND d.next_ms < {PARKED_MS} AND d.created_ms > CAST($4 AS bigint)",
    "$5",
)
FORWARDED = "UPDATE subscriptions SET forward_ms = NULL WHERE subscription_id = $1 AND forward_ms = $2"

# SQLite reads the tables of a CROSS JOIN in this order. Parked deliveries of seller $1 created before $2 end at $3.
EXHAUST_OLD = f"""
UPDATE deliveries SET {EXHAUST.target}, ended_ms = $3
 WHERE seller_id = $1 AND delivery_id IN (WITH old AS MATERIALIZED (
       SELECT d.delivery_id FROM subscriptions s CROSS JOIN deliveries d
        WHERE s.paused_ms IS NOT NULL AND d.subscription_id = s.subscription_id AND d.seller_id = $1 AND d.{PENDING}
          AND d.next_ms = {PARKED_MS} AND d.created_ms < $2
        LIMIT $4 FOR UPDATE OF d SKIP LOCKED) SELECT * FROM old)
"""


@dataclass(frozen=True, slots=True)
class _Moves:
    """The query of the sellers, and the step of each, with their parameters but for subscription, seller and limit."""

    sellers: str
    of_sellers: tuple[Any, ...]
    step: str
    of_step: tuple[Any, ...]


async def move(database: Database, due: Due, now_ms: int, wall_ms: int) -> None:
    """Make the first steps of what follows from the subscription's state, if anything does."""
    moves = _moves(due, now_ms, wall_ms)
    if moves is None:
        return
    query = moves.sellers, due.subscription_id, *moves.of_sellers, STEP_ROWS_MAX
    sellers = await database.read(lambda tx: tx.all(*query))
    moved = 0
    for seller_id, _ in sellers[:STEP_SELLERS_MAX]:
        if moved < STEP_ROWS_MAX:
            moved += await database.write(partial(_move, due=due, moves=moves, seller_id=seller_id))
    total = sum(count for _, count in sellers)
    if moves.step == FORWARD and total < STEP_ROWS_MAX and len(sellers) <= STEP_SELLERS_MAX:
        # All of them. Those that fail from now on wait for their retries.
        await database.write(lambda tx: tx.run(FORWARDED, due.subscription_id, due.forward_ms))


async def withdraw(tx: Transaction, seller_id: int, subscription_id: str, claim: Claim) -> None:
    """Withdraw pending deliveries of a subscription that has ended for this seller: one step."""
    if await tx.run(WITHDRAW_SOME, seller_id, subscription_id, claim.wall_ms, claim.now_ms, STEP_ROWS_MAX):
        tx.notify("deliveries")  # The next step.


async def exhaust_old(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """End up to `limit` deliveries of paused subscriptions that were created before `before_ms`; return how many.

    They are deleted later, like all that have ended.
    """
    return await tx.run(EXHAUST_OLD, seller_id, before_ms, before_ms + PAUSED_KEEP_DAYS * DAY_MS, limit)


def _moves(due: Due, now_ms: int, wall_ms: int) -> _Moves | None:
    if due.deleted:
        return _Moves(SELLERS_TO_WITHDRAW, (wall_ms,), WITHDRAW_SOME, (wall_ms, now_ms))
    if due.paused:
        return _Moves(SELLERS_TO_PARK, (wall_ms,), PARK, (wall_ms,))
    if due.forward_ms is not None:
        times = now_ms, due.forward_ms
        return _Moves(SELLERS_TO_FORWARD, times, FORWARD, times)
    if due.parked:
        return _Moves(SELLERS_TO_UNPARK, (), UNPARK, ())
    return None


async def _move(tx: Transaction, due: Due, moves: _Moves, seller_id: int) -> int:
    moved = await tx.run(moves.step, seller_id, due.subscription_id, *moves.of_step, STEP_ROWS_MAX)
    if moved:
        tx.notify("deliveries")  # The next step, or the deliveries.
    return moved
