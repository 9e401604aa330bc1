"""The SQL of deliveries: claimed, sent, recorded. A claim is a lease by the machine's clock, so that a node may die."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.storage.database import Transaction
from paydesk.webhooks.schemas import CONNECT_TOPIC, TOPIC

SELLERS_MAX = 200

# Who is to be told something now. $1 is the time of the schedule, $2 that of the claims.
SUBSCRIPTIONS_DUE = """
SELECT DISTINCT subscription_id FROM deliveries WHERE status = 'pending' AND next_ms <= $1 AND claimed_until_ms <= $2
"""

SELLERS_DUE = """
SELECT seller_id FROM deliveries
 WHERE subscription_id = $1 AND status = 'pending' AND next_ms <= $2 AND claimed_until_ms <= $3
 GROUP BY seller_id ORDER BY min(next_ms) LIMIT $4
"""

NEXT_DUE = "SELECT min(next_ms) FROM deliveries WHERE status = 'pending' AND next_ms > $1"

# An application hears nothing of a seller who has withdrawn all that it was ever allowed, but that this is so.
TARGET = """
SELECT url, application_id, topic, secret_generation, key_version,
       CASE WHEN deleted_ms IS NOT NULL
              OR (topic = 'orders'
                  AND EXISTS (SELECT 1 FROM authorizations
                               WHERE seller_id = $1 AND application_id = subscriptions.application_id)
                  AND NOT EXISTS (SELECT 1 FROM authorizations
                                   WHERE seller_id = $1 AND application_id = subscriptions.application_id
                                     AND withdrawn_ms IS NULL))
            THEN 1 ELSE 0 END
  FROM subscriptions WHERE subscription_id = $2
"""

WITHDRAW = """
UPDATE deliveries SET status = 'withdrawn', ended_ms = $3
 WHERE seller_id = $1 AND subscription_id = $2 AND status = 'pending' AND claimed_until_ms <= $4
"""

# In order per order and subscription: the next one goes when no earlier one of the same two is open.
_CLAIM = """
UPDATE deliveries SET claimed_until_ms = $5, attempts = attempts + 1
 WHERE seller_id = $1 AND delivery_id IN (WITH chosen AS MATERIALIZED (
       SELECT due.delivery_id FROM deliveries AS due
        WHERE due.seller_id = $1 AND due.subscription_id = $2 AND due.status = 'pending'
          AND due.next_ms <= $3 AND due.claimed_until_ms <= $4
          AND NOT EXISTS (SELECT 1 FROM deliveries AS earlier
                           WHERE earlier.seller_id = $1 AND earlier.order_id = due.order_id
                             AND earlier.subscription_id = $2 AND earlier.version < due.version
                             AND earlier.status = 'pending')
        ORDER BY due.next_ms LIMIT $6 FOR UPDATE SKIP LOCKED) SELECT * FROM chosen)
RETURNING seller_id, delivery_id, subscription_id, order_id, version, attempts, created_ms,
          (SELECT e.body FROM {events} e WHERE e.seller_id = deliveries.seller_id AND e.version = deliveries.version
              AND {same})
"""

# By the topic of the subscription. Of `mp-connect` the application's id stands where otherwise that of an order does.
CLAIM = {
    TOPIC: _CLAIM.format(events="order_events", same="e.order_id = deliveries.order_id"),
    CONNECT_TOPIC: _CLAIM.format(
        events="application_events", same="e.application_id = CAST(deliveries.order_id AS bigint)"
    ),
}

# What stands behind one that waits for its next attempt waits as long: else it would be looked at again and again.
DEFER = """
UPDATE deliveries SET next_ms = (
       SELECT max(earlier.next_ms) FROM deliveries AS earlier
        WHERE earlier.seller_id = $1 AND earlier.order_id = deliveries.order_id AND earlier.subscription_id = $2
          AND earlier.version < deliveries.version AND earlier.status = 'pending' AND earlier.next_ms > $3)
 WHERE seller_id = $1 AND subscription_id = $2 AND status = 'pending' AND next_ms <= $3 AND claimed_until_ms <= $4
   AND EXISTS (SELECT 1 FROM deliveries AS earlier
                WHERE earlier.seller_id = $1 AND earlier.order_id = deliveries.order_id
                  AND earlier.subscription_id = $2 AND earlier.version < deliveries.version
                  AND earlier.status = 'pending' AND earlier.next_ms > $3)
"""

# Whoever gets to record it: a late answer counts though the claim ran out meanwhile.
DELIVERED = """
UPDATE deliveries SET status = 'delivered', ended_ms = $3
 WHERE seller_id = $1 AND delivery_id = $2 AND status = 'pending'
"""

# A failure counts only while the claim is this attempt's own.
FAILED = """
UPDATE deliveries SET next_ms = $4, claimed_until_ms = 0
 WHERE seller_id = $1 AND delivery_id = $2 AND attempts = $3 AND status = 'pending'
"""

EXHAUSTED = """
UPDATE deliveries SET status = 'exhausted', ended_ms = $4, claimed_until_ms = 0
 WHERE seller_id = $1 AND delivery_id = $2 AND attempts = $3 AND status = 'pending'
"""

RELEASE = """
UPDATE deliveries SET claimed_until_ms = 0
 WHERE seller_id = $1 AND delivery_id = $2 AND attempts = $3 AND status = 'pending'
"""

# The order's later ones, and what was first tried after `since`: that did not fail beside others that succeeded.
PULL_FORWARD = """
UPDATE deliveries SET next_ms = $5
 WHERE seller_id = $1 AND subscription_id = $2 AND status = 'pending' AND next_ms > $5
   AND (order_id = $3 OR created_ms > $4)
"""

ADD_ATTEMPT = """
INSERT INTO attempts (seller_id, delivery_id, attempt, started_ms, duration_ms, answer_status, answer_body, error)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING
"""

DELIVERIES_OF = """
SELECT delivery_id, subscription_id, version, status, attempts, next_ms, ended_ms
  FROM deliveries WHERE seller_id = $1 AND order_id = $2 ORDER BY version, subscription_id
"""

ATTEMPTS_OF = """
SELECT attempt, started_ms, duration_ms, answer_status, answer_body, error
  FROM attempts WHERE seller_id = $1 AND delivery_id = $2 ORDER BY attempt
"""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a subscription's notifications go, and what their secret is derived from. `ended`: nothing goes there."""

    url: str
    application_id: int
    topic: str
    secret_generation: int
    key_version: int
    ended: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that this worker has to itself for a while. `attempt` counts from 1, this one included.

    `order_id` is the application's id where the topic is `mp-connect`.
    """

    topic: str
    seller_id: int
    delivery_id: str
    subscription_id: str
    order_id: str
    version: int
    attempt: int
    created_ms: int
    body: str

    @property
    def data_id(self) -> str:
        """What it is about, as the query and `X-Signature` have it: the order, in lower case, or the seller."""
        return str(self.seller_id) if self.topic == CONNECT_TOPIC else self.order_id.lower()

    @property
    def event_id(self) -> str:
        """The id of the notification."""
        return self.delivery_id.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notification of an order for one subscription, and how far it has come."""

    delivery_id: str
    subscription_id: str
    version: int
    status: str
    attempts: int
    next_ms: int
    ended_ms: int | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt and what came of it: an answer, of which the beginning is kept, or an error."""

    attempt: int
    started_ms: int
    duration_ms: int
    answer_status: int | None
    answer_body: str
    error: str | None


async def subscriptions_due(tx: Transaction, now_ms: int, wall_ms: int) -> list[str]:
    """The subscriptions for which something is due and nobody's."""
    return [row[0] for row in await tx.all(SUBSCRIPTIONS_DUE, now_ms, wall_ms)]


async def sellers_due(tx: Transaction, subscription_id: str, now_ms: int, wall_ms: int) -> list[int]:
    """The sellers of whom this subscription is to hear, who waits longest first."""
    return [row[0] for row in await tx.all(SELLERS_DUE, subscription_id, now_ms, wall_ms, SELLERS_MAX)]


async def next_due_ms(tx: Transaction, now_ms: int) -> int | None:
    """When the next attempt after `now_ms` is due."""
    row = await tx.one(NEXT_DUE, now_ms)
    return row[0] if row else None


async def target(tx: Transaction, seller_id: int, subscription_id: str) -> Target | None:
    """Where to send what there is to tell of this seller."""
    row = await tx.one(TARGET, seller_id, subscription_id)
    return Target(*row) if row else None


async def withdraw(tx: Transaction, seller_id: int, subscription_id: str, now_ms: int, wall_ms: int) -> None:
    """End all that is open: there is nobody any more who may hear of it."""
    await tx.run(WITHDRAW, seller_id, subscription_id, now_ms, wall_ms)


async def claim(
    tx: Transaction,
    seller_id: int,
    subscription_id: str,
    *,
    topic: str = TOPIC,
    now_ms: int,
    wall_ms: int,
    until_ms: int,
    limit: int,
) -> list[Claimed]:
    """Take up to `limit` due deliveries until `until_ms`, each for one attempt."""
    rows = await tx.all(CLAIM[topic], seller_id, subscription_id, now_ms, wall_ms, until_ms, limit)
    if len(rows) < limit:
        await tx.run(DEFER, seller_id, subscription_id, now_ms, wall_ms)
    return [Claimed(topic, *row) for row in rows]


async def add_attempt(tx: Transaction, claimed: Claimed, attempt: Attempt) -> None:
    """Keep what an attempt came to."""
    await tx.run(
        ADD_ATTEMPT,
        claimed.seller_id,
        claimed.delivery_id,
        attempt.attempt,
        attempt.started_ms,
        attempt.duration_ms,
        attempt.answer_status,
        attempt.answer_body,
        attempt.error,
    )


async def delivered(tx: Transaction, claimed: Claimed, now_ms: int, since_ms: int) -> None:
    """It arrived. The order's next one may go, and so may what came about after `since_ms` and waits for a retry."""
    await tx.run(DELIVERED, claimed.seller_id, claimed.delivery_id, now_ms)
    await _pull_forward(tx, claimed, now_ms, since_ms)


async def failed(tx: Transaction, claimed: Claimed, next_ms: int) -> None:
    """It did not arrive and is tried again."""
    await tx.run(FAILED, claimed.seller_id, claimed.delivery_id, claimed.attempt, next_ms)


async def exhausted(tx: Transaction, claimed: Claimed, now_ms: int) -> None:
    """It did not arrive and is given up. The order's next one may go."""
    if await tx.run(EXHAUSTED, claimed.seller_id, claimed.delivery_id, claimed.attempt, now_ms):
        await _pull_forward(tx, claimed, now_ms, since_ms=now_ms)


async def release(tx: Transaction, claimed: Claimed) -> None:
    """Give a claim back before it runs out."""
    await tx.run(RELEASE, claimed.seller_id, claimed.delivery_id, claimed.attempt)


async def deliveries_of(tx: Transaction, seller_id: int, order_id: str) -> list[Delivery]:
    """The notifications of an order."""
    return [Delivery(*row) for row in await tx.all(DELIVERIES_OF, seller_id, order_id)]


async def attempts_of(tx: Transaction, seller_id: int, delivery_id: str) -> list[Attempt]:
    """The attempts of one notification, the first one first."""
    return [Attempt(*row) for row in await tx.all(ATTEMPTS_OF, seller_id, delivery_id)]


async def _pull_forward(tx: Transaction, claimed: Claimed, now_ms: int, since_ms: int) -> None:
    arguments = (claimed.seller_id, claimed.subscription_id, claimed.order_id, since_ms, now_ms)
    await tx.run(PULL_FORWARD, *arguments)
    tx.notify("deliveries")
