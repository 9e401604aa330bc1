"""SQL that finds and claims due deliveries. A claim expires by the machine's clock, so that a node may crash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paydesk.engine.webhooks import schedule
from paydesk.engine.webhooks.delivery.send import Message
from paydesk.engine.webhooks.schedule import OF_RECEIVER, PARKED_MS, PENDING, PENDING_OF_ORDER
from paydesk.engine.webhooks.schemas import CONNECT_TOPIC, OPERATORS_TOPIC, TOPIC, TOPIC_OF
from paydesk.platform.jobs import Claim
from paydesk.platform.storage.database import Transaction

DUE_MAX = 500
"""Of this many due deliveries of a subscription the sellers are found in one turn."""

# Two index seeks for each subscription, whatever the number of its pending deliveries. $1 is the service's time.
SUBSCRIPTIONS_DUE = f"""
SELECT subscription_id, paused, CASE WHEN last_ms >= {PARKED_MS} THEN 1 ELSE 0 END, deleted, forward_ms FROM (
       SELECT s.subscription_id, s.forward_ms,
              CASE WHEN s.paused_ms IS NULL OR s.deleted_ms IS NOT NULL THEN 0 ELSE 1 END AS paused,
              CASE WHEN s.deleted_ms IS NULL THEN 0 ELSE 1 END AS deleted,
              (SELECT min(d.next_ms) FROM deliveries d
                WHERE d.subscription_id = s.subscription_id AND d.{PENDING}) AS first_ms,
              (SELECT max(d.next_ms) FROM deliveries d
                WHERE d.subscription_id = s.subscription_id AND d.{PENDING}) AS last_ms
         FROM subscriptions s) AS ends
 WHERE first_ms <= CASE WHEN deleted = 1 THEN {PARKED_MS} WHEN paused = 1 THEN {PARKED_MS} - 1 ELSE $1 END
    OR (paused = 0 AND deleted = 0 AND (last_ms >= {PARKED_MS} OR forward_ms IS NOT NULL))
"""

# The sellers of the first due deliveries, the one that has waited longest first: otherwise one with a constant backlog
# could get every slot. $2 is the service's time, for the schedule; $3 the machine's, for claims.
SELLERS_DUE = f"""
SELECT seller_id FROM (
       SELECT seller_id, next_ms FROM deliveries
        WHERE subscription_id = $1 AND {PENDING} AND next_ms <= $2 AND claimed_until_ms <= $3
        ORDER BY next_ms LIMIT $4) AS due
 GROUP BY seller_id ORDER BY min(next_ms), seller_id
"""

NEXT_DUE = f"""
SELECT min((SELECT min(d.next_ms) FROM deliveries d
             WHERE d.subscription_id = s.subscription_id AND d.{PENDING} AND d.next_ms > $1))
  FROM subscriptions s
"""

# `orders` end for an application when the seller has withdrawn all of its authorizations; `mp-connect` continues.
TARGET = f"""
SELECT s.url, s.application_id, {TOPIC_OF.format("s.")},
       CASE WHEN s.deleted_ms IS NOT NULL
              OR (s.topic = 'orders'
                  AND EXISTS (SELECT 1 FROM authorizations
                               WHERE seller_id = $1 AND application_id = s.application_id)
                  AND NOT EXISTS (SELECT 1 FROM authorizations
                                   WHERE seller_id = $1 AND application_id = s.application_id
                                     AND withdrawn_ms IS NULL))
            THEN 1 ELSE 0 END,
       s.paused_ms, s.failing_since_ms, s.failed_ms, k.generation, k.key_version
  FROM subscriptions s
  JOIN subscription_secrets k ON k.subscription_id = s.subscription_id AND k.dropped_ms IS NULL
 WHERE s.subscription_id = $2
 ORDER BY CASE WHEN k.generation = s.secret_generation THEN 0 ELSE 1 END
"""


def _earlier(due: str) -> str:
    """Return the FROM clause of the pending deliveries of the same order and subscription before a `due` one."""
    return f"""FROM deliveries AS earlier
                WHERE earlier.seller_id = $1 AND earlier.order_id = {due}.order_id AND earlier.{OF_RECEIVER}
                  AND earlier.version < {due}.version AND earlier.{PENDING_OF_ORDER}"""


def _body(events: str, same: str) -> str:
    return f"(SELECT e.body FROM {events} e WHERE e.seller_id = deliveries.seller_id AND {same})"


_OF_ORDER = _body("order_events", "e.order_id = deliveries.order_id AND e.version = deliveries.version")

# For `mp-connect`, `order_id` contains the application's id; for operators that of the thread.
BODY = {
    TOPIC: _OF_ORDER,
    OPERATORS_TOPIC: _OF_ORDER,
    CONNECT_TOPIC: _body(
        "application_events",
        "e.application_id = CAST(deliveries.order_id AS bigint) AND e.version = deliveries.version",
    ),
}
"""The body of a delivery's notification, by topic."""


def claims(chosen: str, change: str, returned: str = "") -> dict[str, str]:
    """Return, by topic, the claim of the deliveries of seller $1 that `chosen` selects. It returns rows of `Claimed`.

    `returned` are further columns before these.
    """
    return {
        topic: f"""
UPDATE deliveries SET {change}
 WHERE seller_id = $1 AND delivery_id IN (WITH chosen AS MATERIALIZED ({chosen} FOR UPDATE SKIP LOCKED)
       SELECT * FROM chosen)
RETURNING {returned}seller_id, delivery_id, subscription_id, order_id, attempts, uncounted, {body}, trace
"""
        for topic, body in BODY.items()
    }


def claims_due(order_condition: str) -> dict[str, str]:
    """Return, by topic, the claim of deliveries `due` of subscription $2 under a condition on the order's other ones.

    $3 is the service's time, $4 the machine's, $5 the end of the claim, $6 the limit.
    """
    return claims(
        f"""
       SELECT due.delivery_id FROM deliveries AS due
        WHERE due.seller_id = $1 AND due.subscription_id = $2 AND due.{PENDING}
          AND due.next_ms <= $3 AND due.claimed_until_ms <= $4
          AND {order_condition}
        ORDER BY due.next_ms LIMIT $6""",
        "claimed_until_ms = $5, attempts = attempts + 1",
    )


# In order: those without an earlier pending one.
CLAIM = claims_due(f"NOT EXISTS (SELECT 1 {_earlier('due')})")

# Deliveries behind one that waits for a retry wait as long; otherwise every claim would scan them again.
DEFER = f"""
UPDATE deliveries SET next_ms = (SELECT max(earlier.next_ms) {_earlier("deliveries")} AND earlier.next_ms > $3)
 WHERE seller_id = $1 AND subscription_id = $2 AND {PENDING} AND next_ms <= $3 AND claimed_until_ms <= $4
   AND EXISTS (SELECT 1 {_earlier("deliveries")} AND earlier.next_ms > $3)
"""

# A first pending delivery of an order is superseded by a newer one that is due. Found from the due ones, as in DEFER.
SUPERSEDE = f"""
UPDATE deliveries SET {schedule.SUPERSEDE.target}, ended_ms = $3, claimed_until_ms = 0
 WHERE seller_id = $1 AND delivery_id IN (WITH failed AS MATERIALIZED (
       SELECT first.delivery_id FROM deliveries AS due
         JOIN deliveries AS first ON first.seller_id = $1 AND first.order_id = due.order_id
                                 AND first.version < due.version AND first.{OF_RECEIVER}
        WHERE due.seller_id = $1 AND due.subscription_id = $2 AND due.{PENDING} AND due.next_ms <= $3
          AND first.{PENDING_OF_ORDER} AND first.attempts - first.uncounted >= {schedule.SUPERSEDED_AFTER_ATTEMPTS}
          AND first.claimed_until_ms <= $4
          AND NOT EXISTS (SELECT 1 {_earlier("first")})
          FOR UPDATE OF first SKIP LOCKED) SELECT * FROM failed)
"""


@dataclass(frozen=True, slots=True)
class Due:
    """A subscription with work for the worker. `parked`: it is not paused, but some of its deliveries are parked.

    `deleted`: it is deleted, but some of its deliveries are pending. `forward_ms`: deliveries created after it that
    wait for a retry are to be made due; 0: their schedules start anew.
    """

    subscription_id: str
    paused: bool
    parked: bool
    deleted: bool
    forward_ms: int | None


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a subscription's notifications.

    `secrets` has the generation and the key version of each valid secret, the primary one first. `ended`: it gets no
    deliveries any more.
    """

    secrets: tuple[tuple[int, int], ...]
    url: str
    application_id: int
    topic: str
    ended: int
    paused_ms: int | None
    failing_since_ms: int | None
    failed_ms: int | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that this worker has claimed for one attempt. `attempt` counts from 1 and includes this one.

    For topic `mp-connect`, `order_id` is the application's id. `claimed_ms` is by the service's clock.
    `uncounted` of the attempts are not part of its schedule. `trace`: the headers of what caused the event.
    """

    target: Target
    claimed_ms: int
    seller_id: int
    delivery_id: str
    subscription_id: str
    order_id: str
    attempt: int
    uncounted: int
    body: str
    trace: str | None

    @property
    def delivery_facts(self) -> dict[str, Any]:
        """The delivery in the log, with its seller, and with its order if it is about one."""
        about = {"order": self.order_id} if self.target.topic == TOPIC else {}
        return {"delivery": self.delivery_id, "seller_id": self.seller_id, **about}

    @property
    def message(self) -> Message:
        """The notification of this attempt."""
        return Message(
            delivery_id=self.delivery_id,
            url=self.target.url,
            topic=self.target.topic,
            seller_id=self.seller_id,
            source_id=self.order_id,
            attempt=self.attempt,
            body=self.body,
        )


async def subscriptions_due(tx: Transaction, now_ms: int) -> list[Due]:
    """Return the subscriptions with deliveries that are due, or to be moved by `parking`."""
    rows = await tx.all(SUBSCRIPTIONS_DUE, now_ms)
    return [
        Due(row[0], paused=bool(row[1]), parked=bool(row[2] and not row[1]), deleted=bool(row[3]), forward_ms=row[4])
        for row in rows
    ]


async def sellers_due(tx: Transaction, subscription_id: str, now_ms: int, wall_ms: int) -> list[int]:
    """Return the sellers of the deliveries of this subscription that have been due longest."""
    return [row[0] for row in await tx.all(SELLERS_DUE, subscription_id, now_ms, wall_ms, DUE_MAX)]


async def next_due_ms(tx: Transaction, now_ms: int) -> int | None:
    """Return when the next attempt after `now_ms` is due, or None."""
    row = await tx.one(NEXT_DUE, now_ms)
    return row[0] if row else None


async def target(tx: Transaction, seller_id: int, subscription_id: str) -> Target | None:
    """Return the target of this seller's deliveries, or None."""
    rows = await tx.all(TARGET, seller_id, subscription_id)
    if not rows:
        return None
    *fields, _, _ = rows[0]
    return Target(tuple((generation, key_version) for *_, generation, key_version in rows), *fields)


async def claim(tx: Transaction, seller_id: int, subscription_id: str, target: Target, claim: Claim) -> list[Claimed]:
    """Claim due deliveries, each for one attempt. If there are fewer than the limit, supersede and defer others."""
    receiver, times = (seller_id, subscription_id), (claim.now_ms, claim.wall_ms)
    rows = await tx.all(CLAIM[target.topic], *receiver, *times, claim.until_ms, claim.limit)
    if len(rows) < claim.limit:
        if await tx.run(SUPERSEDE, *receiver, *times):
            rows += await tx.all(CLAIM[target.topic], *receiver, *times, claim.until_ms, claim.limit - len(rows))
        await tx.run(DEFER, *receiver, *times)
    return [Claimed(target, claim.now_ms, *row) for row in rows]
