"""Rotation of a subscription's secrets: add a second one, promote it, drop the first.

The caller has locked the subscription, so it never has more than two valid secrets, and always a primary one.
"""

from __future__ import annotations

from paydesk.core.keys import Keys
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.subscriptions.store import SubscriptionSecret
from paydesk.platform.storage.database import Transaction

VALID_SECRETS_MAX = 2

# Dropped generations count too: a generation that was used twice would bring back a secret that may have leaked.
ADD = """
INSERT INTO subscription_secrets (subscription_id, generation, key_version, created_ms)
SELECT CAST($1 AS text), MAX(generation) + 1, CAST($2 AS bigint), CAST($3 AS bigint)
  FROM subscription_secrets WHERE subscription_id = $1
HAVING COUNT(*) - COUNT(dropped_ms) < $4
RETURNING subscription_id, generation, key_version, created_ms
"""

PROMOTE = """
UPDATE subscriptions SET secret_generation = $2
 WHERE subscription_id = $1
   AND EXISTS (SELECT 1 FROM subscription_secrets k
                WHERE k.subscription_id = $1 AND k.generation = $2 AND k.dropped_ms IS NULL)
"""

DROP = """
UPDATE subscription_secrets SET dropped_ms = $3
 WHERE subscription_id = $1 AND generation = $2 AND dropped_ms IS NULL
   AND generation <> (SELECT s.secret_generation FROM subscriptions s WHERE s.subscription_id = $1)
"""


async def add(tx: Transaction, keys: Keys, subscription_id: str, now_ms: int) -> tuple[int, Secret] | None:
    """Add a secret under the active server key; return its generation and it, or None if there are two already."""
    row = await tx.one(ADD, subscription_id, keys.active, now_ms, VALID_SECRETS_MAX)
    if row is None:
        return None
    added = SubscriptionSecret(*row)
    return added.generation, added.derive(keys)


async def promote(tx: Transaction, subscription_id: str, generation: int) -> bool:
    """Make this secret the primary one. Return False if it is not valid."""
    return bool(await tx.run(PROMOTE, subscription_id, generation))


async def drop(tx: Transaction, subscription_id: str, generation: int, now_ms: int) -> bool:
    """Drop this secret: it no longer signs anything. Return False if it is the primary one or not valid."""
    return bool(await tx.run(DROP, subscription_id, generation, now_ms))
