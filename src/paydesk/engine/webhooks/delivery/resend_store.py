"""SQL of resends: request, claim, end. `deliveries.resend_ms` is the time of a request that has not been attempted."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.engine.webhooks import schedule
from paydesk.engine.webhooks.delivery import store
from paydesk.engine.webhooks.delivery.store import Claimed, Target
from paydesk.platform.jobs import Claim
from paydesk.platform.storage.database import Transaction

RESENDS_TOPIC = "resends"
"""The signal that resends were requested."""
IS_RESEND = "resend"
"""The member of a stored request that says that the attempt was a resend."""
GROUPS_MAX = 500

# Each request has another time, so one that is made during an attempt is not lost when that ends.
REQUEST = """
UPDATE deliveries SET resend_ms = CASE WHEN resend_ms >= $3 THEN resend_ms + 1 ELSE $3 END
 WHERE seller_id = $1 AND delivery_id = $2
"""

# Requests for a paused subscription wait; those for a deleted one are found, so that they are dropped.
WAITING = """
SELECT d.subscription_id, d.seller_id FROM deliveries d
  JOIN subscriptions s ON s.subscription_id = d.subscription_id
 WHERE d.resend_ms IS NOT NULL AND d.claimed_until_ms <= $1 AND (s.paused_ms IS NULL OR s.deleted_ms IS NOT NULL)
 GROUP BY d.subscription_id, d.seller_id ORDER BY min(d.resend_ms) LIMIT $2
"""


# The earliest request first. The schedule does not count the attempt.
CLAIM = store.claims(
    """
       SELECT waiting.delivery_id FROM deliveries AS waiting
        WHERE waiting.seller_id = $1 AND waiting.subscription_id = $2 AND waiting.resend_ms IS NOT NULL
          AND waiting.claimed_until_ms <= $3
        ORDER BY waiting.resend_ms LIMIT $5""",
    "claimed_until_ms = $4, attempts = attempts + 1, uncounted = uncounted + 1",
    "resend_ms, ",
)

DROP = """
UPDATE deliveries SET resend_ms = NULL
 WHERE seller_id = $1 AND subscription_id = $2 AND resend_ms IS NOT NULL AND claimed_until_ms <= $3
"""

# A pending delivery makes another move, see `outcome_store`.
DELIVERED = f"""
UPDATE deliveries SET {schedule.RESEND.target}, ended_ms = $3
 WHERE seller_id = $1 AND delivery_id = $2 AND {schedule.RESEND.guard}
"""

# A later attempt keeps its claim, and a later request stays.
END = """
UPDATE deliveries SET claimed_until_ms = CASE WHEN attempts = $3 THEN 0 ELSE claimed_until_ms END,
                      resend_ms = CASE WHEN resend_ms = $4 THEN NULL ELSE resend_ms END
 WHERE seller_id = $1 AND delivery_id = $2
"""

RELEASE = "UPDATE deliveries SET claimed_until_ms = 0 WHERE seller_id = $1 AND delivery_id = $2 AND attempts = $3"

# Nothing was sent, so the attempt does not count.
RELEASE_UNSENT = """
UPDATE deliveries SET claimed_until_ms = 0, attempts = attempts - 1, uncounted = uncounted - 1
 WHERE seller_id = $1 AND delivery_id = $2 AND attempts = $3
"""


@dataclass(frozen=True, slots=True)
class Resend:
    """A delivery that this worker has claimed for a resend, and the time of the request."""

    claimed: Claimed
    resend_ms: int


async def request(tx: Transaction, seller_id: int, delivery_id: str, now_ms: int) -> None:
    """Request a resend; a request that waits already is replaced."""
    await tx.run(REQUEST, seller_id, delivery_id, now_ms)
    tx.notify(RESENDS_TOPIC)


async def waiting(tx: Transaction, wall_ms: int) -> list[tuple[str, int]]:
    """Return the subscriptions and sellers with requests that can be attempted, the earliest first."""
    return [(row[0], row[1]) for row in await tx.all(WAITING, wall_ms, GROUPS_MAX)]


async def claim(tx: Transaction, seller_id: int, subscription_id: str, target: Target, claim: Claim) -> list[Resend]:
    """Claim requested resends, each for one attempt."""
    rows = await tx.all(CLAIM[target.topic], seller_id, subscription_id, claim.wall_ms, claim.until_ms, claim.limit)
    return [Resend(Claimed(target, claim.now_ms, *row), resend_ms) for resend_ms, *row in rows]


async def drop(tx: Transaction, seller_id: int, subscription_id: str, claim: Claim) -> None:
    """Drop the requests for a subscription that has ended for this seller."""
    await tx.run(DROP, seller_id, subscription_id, claim.wall_ms)


async def delivered(tx: Transaction, claimed: Claimed, now_ms: int) -> None:
    """Mark an ended delivery as delivered."""
    await tx.run(DELIVERED, claimed.seller_id, claimed.delivery_id, now_ms)


async def end(tx: Transaction, resend: Resend) -> None:
    """Clear the request and the claim, unless they are later ones."""
    claimed = resend.claimed
    await tx.run(END, claimed.seller_id, claimed.delivery_id, claimed.attempt, resend.resend_ms)


async def release(tx: Transaction, resend: Resend) -> None:
    """Release a claim before it expires."""
    await tx.run(RELEASE, resend.claimed.seller_id, resend.claimed.delivery_id, resend.claimed.attempt)


async def release_unsent(tx: Transaction, resend: Resend) -> None:
    """Release a claim for which nothing was sent."""
    await tx.run(RELEASE_UNSENT, resend.claimed.seller_id, resend.claimed.delivery_id, resend.claimed.attempt)
