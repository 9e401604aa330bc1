"""The SQL of the health checks."""

from __future__ import annotations

from paydesk.platform.storage.database import Transaction
from paydesk.platform.storage.statements import CLOCK_MS

KEY_VERSIONS = """
SELECT DISTINCT k.key_version FROM subscriptions s
  JOIN subscription_secrets k ON k.subscription_id = s.subscription_id AND k.dropped_ms IS NULL
 WHERE s.deleted_ms IS NULL ORDER BY k.key_version"""

CLOCK = f"SELECT {CLOCK_MS}"


async def clock_ms(tx: Transaction) -> int:
    """Return milliseconds since 1970 in UTC by the clock of the database's machine."""
    row = await tx.one(CLOCK)
    assert row is not None, "it selects one row"
    return int(row[0])


async def key_versions(tx: Transaction) -> list[int]:
    """Return the versions of the server keys that subscriptions are signed with."""
    return [version for (version,) in await tx.all(KEY_VERSIONS)]
