"""Replays: exhausted and superseded deliveries become pending again, in order, and their schedule starts anew.

Versions of an order are sent in ascending order, also after newer ones were delivered: a receiver that compares
versions ignores them.
"""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.engine.webhooks import schedule
from paydesk.engine.webhooks.delivery import store
from paydesk.engine.webhooks.schedule import PARKED_MS
from paydesk.platform.storage.database import Transaction

STEP_ROWS_MAX = 1000
"""The maximum number of deliveries that one transaction changes."""
STEP_SELLERS_MAX = 100

SUBSCRIPTIONS_OF_ORDER = f"""
SELECT DISTINCT subscription_id FROM deliveries
 WHERE seller_id = $1 AND order_id = $2 AND {schedule.REPLAY.guard} AND created_ms >= $3
"""

# $4 is the time of the next attempt. Attempts so far no longer count in the schedule.
REPLAY_ORDER = f"""
UPDATE deliveries SET {schedule.REPLAY.target}, uncounted = attempts, next_ms = $4, ended_ms = NULL
 WHERE seller_id = $1 AND order_id = $2 AND subscription_id = $3 AND {schedule.REPLAY.guard} AND created_ms >= $5
"""

SUBSCRIPTION = "SELECT deleted_ms FROM subscriptions WHERE subscription_id = $1"

NEXT_SELLER = f"""
SELECT seller_id FROM deliveries
 WHERE subscription_id = $1 AND {schedule.REPLAY.guard} AND seller_id >= $2 ORDER BY seller_id LIMIT 1
"""

# An order's versions ascend, so a later step never has an earlier version.
REPLAY_STEP = f"""
UPDATE deliveries SET {schedule.REPLAY.target}, uncounted = attempts, next_ms = $4, ended_ms = NULL
 WHERE seller_id = $1 AND delivery_id IN (WITH chosen AS MATERIALIZED (
       SELECT old.delivery_id FROM deliveries AS old
        WHERE old.seller_id = $1 AND old.subscription_id = $2 AND {schedule.REPLAY.guard} AND old.created_ms >= $3
          AND (old.order_id, old.version) > ($5, $6)
        ORDER BY old.order_id, old.version LIMIT $7 FOR UPDATE) SELECT * FROM chosen)
RETURNING order_id, version
"""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place where the next step of a replay begins: this seller, after this version of an order."""

    seller_id: int = 0
    order_id: str = ""
    version: int = 0


async def is_deleted(tx: Transaction, subscription_id: str) -> bool | None:
    """Return whether a subscription is deleted, or None if there is none with this id."""
    row = await tx.one(SUBSCRIPTION, subscription_id)
    return None if row is None else row[0] is not None


async def replay_order(tx: Transaction, seller_id: int, order_id: str, since_ms: int, now_ms: int) -> int:
    """Make the order's deliveries that were created from `since_ms` on pending; return their number."""
    count = 0
    for (subscription_id,) in await tx.all(SUBSCRIPTIONS_OF_ORDER, seller_id, order_id, since_ms):
        next_ms = await _next_ms(tx, seller_id, subscription_id, now_ms)
        if next_ms is not None:
            count += await tx.run(REPLAY_ORDER, seller_id, order_id, subscription_id, next_ms, since_ms)
    if count:
        tx.notify("deliveries")
    return count


async def replay_step(
    tx: Transaction, subscription_id: str, since_ms: int, now_ms: int, begin: Cursor
) -> tuple[int, Cursor | None]:
    """Make up to `STEP_ROWS_MAX` deliveries of a subscription pending.

    Return their number, and where the next step begins; None: nothing is left.
    """
    count, cursor = 0, begin
    for _ in range(STEP_SELLERS_MAX):
        row = await tx.one(NEXT_SELLER, subscription_id, cursor.seller_id)
        if row is None:
            return _notified(tx, count), None
        seller_id = int(row[0])
        after = (cursor.order_id, cursor.version) if cursor.seller_id == seller_id else ("", 0)
        next_ms = await _next_ms(tx, seller_id, subscription_id, now_ms)
        if next_ms is not None:
            limit = STEP_ROWS_MAX - count
            receiver = seller_id, subscription_id
            replayed = await tx.all(REPLAY_STEP, *receiver, since_ms, next_ms, *after, limit)
            count += len(replayed)
            if len(replayed) == limit:
                return _notified(tx, count), Cursor(seller_id, *max((str(order), int(at)) for order, at in replayed))
        cursor = Cursor(seller_id + 1)
    return _notified(tx, count), cursor


async def _next_ms(tx: Transaction, seller_id: int, subscription_id: str, now_ms: int) -> int | None:
    """Return when the replayed deliveries are due; None if the subscription has ended for the seller."""
    target = await store.target(tx, seller_id, subscription_id)
    if target is None or target.ended:
        return None
    return PARKED_MS if target.paused_ms is not None else now_ms


def _notified(tx: Transaction, count: int) -> int:
    """Notify the workers if there is something to deliver; return `count`."""
    if count:
        tx.notify("deliveries")
    return count
