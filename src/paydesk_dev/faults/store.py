"""SQL of webhook faults: number the notifications of a subscription with a fault, hold them back, drop them.

A notification is numbered once, when the worker first finds it, in the order of creation; the number is stored, so a
restart changes nothing. Holds follow the machine's clock: a delivery that is held looks like one that is being sent.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from paydesk.engine.webhooks.delivery import outcome_store, store
from paydesk.engine.webhooks.delivery.sending import Outcome
from paydesk.engine.webhooks.delivery.store import Claimed, Target
from paydesk.engine.webhooks.schedule import PENDING
from paydesk.platform.jobs import Claim
from paydesk.platform.storage.database import Transaction
from paydesk_dev.faults import kinds as faults
from paydesk_dev.faults.kinds import Fault, FaultKind

NUMBERED_MAX = 500
TOPIC_OF_SIGNALS = "faults"
"""The signal that a fault was set or cleared, or that it counted a notification."""

FAULT = "SELECT fault FROM subscriptions WHERE subscription_id = $1"

FAULTS = "SELECT subscription_id, fault FROM subscriptions WHERE fault IS NOT NULL AND deleted_ms IS NULL"

SET = """
UPDATE subscriptions SET fault = $2, fault_count = 0 WHERE subscription_id = $1
"""

# The deliveries that an earlier fault numbered or holds: they are counted again, or sent.
FORGET = f"""
UPDATE deliveries SET fault_ordinal = NULL, claimed_until_ms = CASE WHEN attempts = 0 THEN 0 ELSE claimed_until_ms END
 WHERE subscription_id = $1 AND {PENDING} AND fault_ordinal IS NOT NULL
"""

# The action is NULL for topic `mp-connect`.
UNNUMBERED = f"""
SELECT d.delivery_id, d.order_id,
       (SELECT e.action FROM order_events e
         WHERE e.seller_id = d.seller_id AND e.order_id = d.order_id AND e.version = d.version)
  FROM deliveries d
 WHERE d.seller_id = $1 AND d.subscription_id = $2 AND d.{PENDING} AND d.attempts = 0 AND d.fault_ordinal IS NULL
 ORDER BY d.created_ms, d.order_id, d.version LIMIT $3
"""

# No row if the fault was replaced meanwhile.
COUNT = """
UPDATE subscriptions SET fault_count = fault_count + $3 WHERE subscription_id = $1 AND fault = $2
RETURNING fault_count
"""

# 0: a notification that the fault does not count.
NUMBER = f"""
UPDATE deliveries SET fault_ordinal = $3, claimed_until_ms = $4
 WHERE seller_id = $1 AND delivery_id = $2 AND {PENDING} AND attempts = 0 AND fault_ordinal IS NULL
"""

_HELD = f"{PENDING} AND attempts = 0 AND claimed_until_ms > $3"

ORDERS_HELD = f"SELECT order_id FROM deliveries WHERE seller_id = $1 AND subscription_id = $2 AND {_HELD}"

END_HOLD = f"""
UPDATE deliveries SET claimed_until_ms = 0
 WHERE seller_id = $1 AND subscription_id = $2 AND order_id = $3 AND {PENDING} AND attempts = 0
"""

# The number, while no attempt is recorded: faults affect the first attempt.
ORDINAL = """
SELECT fault_ordinal FROM deliveries d
 WHERE seller_id = $1 AND delivery_id = $2
   AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.seller_id = d.seller_id AND a.delivery_id = d.delivery_id)
"""

# Due again at once; the schedule does not count the attempt that succeeded.
REPEAT = f"""
UPDATE deliveries SET next_ms = $4, claimed_until_ms = 0, uncounted = uncounted + 1
 WHERE seller_id = $1 AND delivery_id = $2 AND attempts = $3 AND {PENDING}
"""


_EARLIER = f"""FROM deliveries AS earlier
                WHERE earlier.seller_id = $1 AND earlier.order_id = due.order_id AND earlier.subscription_id = $2
                  AND earlier.version < due.version AND earlier.{PENDING}"""
_EARLIER_HELD = "earlier.attempts = 0 AND earlier.claimed_until_ms > $4"

# All earlier pending versions are held.
CLAIM_NEWER = store.claims_due(
    f"EXISTS (SELECT 1 {_EARLIER} AND {_EARLIER_HELD}) AND NOT EXISTS (SELECT 1 {_EARLIER} AND NOT ({_EARLIER_HELD}))"
)

ANY_BEFORE_ANSWER = "SELECT 1 FROM subscriptions WHERE fault LIKE '%before_answer%' AND deleted_ms IS NULL LIMIT 1"

CREATED = """
SELECT d.status, d.attempts, d.claimed_until_ms, d.fault_ordinal, s.fault
  FROM deliveries d JOIN subscriptions s ON s.subscription_id = d.subscription_id
 WHERE d.seller_id = $1 AND d.order_id = $2 AND d.version = 1 AND s.fault LIKE '%before_answer%' AND s.paused_ms IS NULL
"""


@dataclass(frozen=True, slots=True)
class Disturbed(Claimed):
    """A claimed delivery whose attempt a fault of this kind affects."""

    fault: FaultKind


async def fault_of(tx: Transaction, subscription_id: str) -> Fault | None:
    """Return the fault of a subscription."""
    stored = await _stored(tx, subscription_id)
    return None if stored is None else faults.parse(stored)


async def all_faults(tx: Transaction) -> dict[str, Fault]:
    """Return the faults by their subscriptions."""
    return {subscription_id: faults.parse(stored) for subscription_id, stored in await tx.all(FAULTS)}


async def set_fault(tx: Transaction, subscription_id: str, fault: Fault | None) -> None:
    """Set or clear the fault of a locked subscription. Counting starts anew, and what is held back is sent."""
    await tx.run(SET, subscription_id, None if fault is None else faults.encode(fault))
    await tx.run(FORGET, subscription_id)
    tx.notify("deliveries")
    tx.notify(TOPIC_OF_SIGNALS)


async def claim(tx: Transaction, seller_id: int, subscription_id: str, target: Target, claim: Claim) -> list[Claimed]:
    """Claim due deliveries, as `store.claim` does. Those that the subscription's fault affects are `Disturbed`."""
    stored = await _stored(tx, subscription_id)
    if stored is None:
        return await store.claim(tx, seller_id, subscription_id, target, claim)
    return await claim_disturbed(tx, seller_id, subscription_id, target, claim, stored)


async def claim_disturbed(
    tx: Transaction, seller_id: int, subscription_id: str, target: Target, claim: Claim, stored: str
) -> list[Claimed]:
    """Claim due deliveries of a subscription with this fault, as it is stored; none if it was replaced meanwhile."""
    fault = faults.parse(stored)
    if not await _number(tx, seller_id, subscription_id, stored, claim):
        return []
    rows = await store.claim(tx, seller_id, subscription_id, target, claim)
    if fault.kind == "out_of_order" and len(rows) < claim.limit:
        limits = claim.now_ms, claim.wall_ms, claim.until_ms, claim.limit - len(rows)
        newer = await tx.all(CLAIM_NEWER[target.topic], seller_id, subscription_id, *limits)
        rows += [_disturbed(Claimed(target, claim.now_ms, *row), "out_of_order") for row in newer]
    return [found for row in rows if (found := await _affected(tx, fault, row, claim)) is not None]


async def _stored(tx: Transaction, subscription_id: str) -> str | None:
    row = await tx.one(FAULT, subscription_id)
    return row[0] if row else None


async def _number(tx: Transaction, seller_id: int, subscription_id: str, stored: str, claim: Claim) -> bool:
    """Number new deliveries and hold back those that the fault delays. Return False if the fault was replaced."""
    fault = faults.parse(stored)
    found = await tx.all(UNNUMBERED, seller_id, subscription_id, NUMBERED_MAX)
    counted = [row for row in found if fault.counts(row[2])]
    last = await tx.one(COUNT, subscription_id, stored, len(counted)) if found else (0,)
    if last is None:
        return False
    ordinal = last[0] - len(counted)
    held = {row[0] for row in await tx.all(ORDERS_HELD, seller_id, subscription_id, claim.wall_ms)}
    for delivery_id, order_id, action in found:
        own, until_ms = 0, 0
        if fault.counts(action):
            own = ordinal = ordinal + 1
            # A version that may go ahead of one that is held is not held itself.
            if fault.affects(own) and (fault.kind == "late" or (fault.kind == "out_of_order" and order_id not in held)):
                until_ms = claim.wall_ms + (fault.delay_seconds or 0) * 1000
                held.add(order_id)
        await tx.run(NUMBER, seller_id, delivery_id, own, until_ms)
    if found and fault.kind == "before_answer":
        tx.notify(TOPIC_OF_SIGNALS)
    return True


async def _affected(tx: Transaction, fault: Fault, row: Claimed, claim: Claim) -> Claimed | None:
    """Return the claimed delivery, `Disturbed` if the fault affects its attempt, or None if it was dropped."""
    if fault.kind not in ("twice", "bad_signature", "old_timestamp", "drop"):
        return row
    found = await tx.one(ORDINAL, row.seller_id, row.delivery_id)
    if found is None or not found[0] or not fault.affects(found[0]):
        return row
    if fault.kind != "drop":
        return _disturbed(row, fault.kind)
    await outcome_store.add_attempt(tx, row, Outcome(None, error=faults.DROPPED), 0, request="")
    await outcome_store.exhausted(tx, row, claim.now_ms)
    # Its place in this turn is free for another.
    tx.notify("deliveries")
    return None


def _disturbed(row: Claimed, kind: FaultKind) -> Disturbed:
    return Disturbed(**{field.name: getattr(row, field.name) for field in fields(row)}, fault=kind)


async def delivered(tx: Transaction, claimed: Claimed, now_ms: int) -> None:
    """Record the success of an attempt, as `outcome_store.delivered` does.

    `twice` makes the delivery due once more; `out_of_order` sends the order's versions that are held.
    """
    kind = claimed.fault if isinstance(claimed, Disturbed) else None
    if kind == "twice":
        await tx.run(REPEAT, claimed.seller_id, claimed.delivery_id, claimed.attempt, now_ms)
        tx.notify("deliveries")
        return
    await outcome_store.delivered(tx, claimed, now_ms)
    if kind == "out_of_order":
        await tx.run(END_HOLD, claimed.seller_id, claimed.subscription_id, claimed.order_id)
        tx.notify("deliveries")


async def any_before_answer(tx: Transaction) -> bool:
    """Return whether any subscription has the fault `before_answer`."""
    return await tx.one(ANY_BEFORE_ANSWER) is not None


async def may_answer(tx: Transaction, seller_id: int, order_id: str) -> bool:
    """Return whether the response that creates the order may be sent: no `before_answer` waits for its notification.

    It waits while the notification is not yet counted, or while the first attempt of one that it affects is not over.
    """
    for status, attempts, claimed_until_ms, ordinal, stored in await tx.all(CREATED, seller_id, order_id):
        if status != PENDING.name or (attempts and not claimed_until_ms):
            continue
        if ordinal is None or (ordinal and faults.parse(stored).affects(ordinal)):
            return False
    return True
