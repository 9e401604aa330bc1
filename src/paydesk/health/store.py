"""What the database says about whether this node fits it."""

from __future__ import annotations

from paydesk.storage.database import Transaction

KEY_VERSIONS = "SELECT DISTINCT key_version FROM subscriptions WHERE deleted_ms IS NULL ORDER BY key_version"


async def key_versions(tx: Transaction) -> list[int]:
    """The versions of the server keys that subscriptions are signed with."""
    return [version for (version,) in await tx.all(KEY_VERSIONS)]
