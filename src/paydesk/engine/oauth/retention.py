"""The retention of codes, consent requests, token families and their tokens. What is pruned is refused as unknown.

A used refresh token is kept until it would have expired, because its reuse revokes the family. The two newest
generations of an active family are always kept: they answer retries.
"""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.platform.retention import Rule, prune
from paydesk.platform.storage.database import Transaction

FAMILIES_PER_PAGE = 100
UNUSED_REQUESTS_KEEP_MINUTES = 60
"""Days after their creation that consent requests are kept which were not decided in time."""

# A consent request that was not decided, or refused as expired.
_UNUSED = "(o.decided_ms IS NULL OR o.decided_ms >= o.expires_ms)"
RULES = (
    Rule(lambda settings: settings.tokens_keep_days, prune("codes", "digest", "expires_ms")),
    Rule(lambda settings: settings.tokens_keep_days, prune("consent_requests", "digest", "expires_ms")),
    Rule(
        # From the end of `consent_minutes`.
        lambda settings: max(UNUSED_REQUESTS_KEEP_MINUTES - settings.consent_minutes, 0) / (24 * 60),
        prune("consent_requests", "digest", "expires_ms", _UNUSED),
    ),
)
"""Token families have an age of their own, see below."""


def _expiry(table: str, which: str) -> str:
    return (
        f"COALESCE((SELECT t.expires_ms FROM {table} t"
        f" WHERE t.seller_id = c.seller_id AND t.family_id = c.family_id {which}), 0)"
    )


_NEWEST, _OLDEST = "AND t.generation = c.generation", "ORDER BY t.generation LIMIT 1"

# A page of a seller's families after $2, with the expiry of their newest and oldest tokens.
FAMILIES = f"""SELECT c.family_id, c.generation, c.revoked_ms, a.withdrawn_ms,
        {_expiry("refresh_tokens", _NEWEST)}, {_expiry("access_tokens", _NEWEST)},
        {_expiry("refresh_tokens", _OLDEST)}, {_expiry("access_tokens", _OLDEST)}
    FROM token_families c
    JOIN authorizations a ON a.seller_id = c.seller_id AND a.authorization_id = c.authorization_id
    WHERE c.seller_id = $1 AND c.family_id > $2 ORDER BY c.family_id LIMIT $3"""

# A token of the family that expires at $3 or later.
_VALID = "SELECT 1 FROM {table} WHERE seller_id = $1 AND family_id = $2 AND expires_ms >= $3"
VALID = f"{_VALID.format(table='refresh_tokens')} UNION ALL {_VALID.format(table='access_tokens')} LIMIT 1"

# The oldest generation that expires at $3 or later, or whose successor was created at $3 or later.
_FIRST_KEPT = """SELECT t.generation FROM {table} t
    WHERE t.seller_id = $1 AND t.family_id = $2
      AND (t.expires_ms >= $3
           OR EXISTS (SELECT 1 FROM {table} n WHERE n.seller_id = $1 AND n.family_id = $2
                         AND n.generation = t.generation + 1 AND n.created_ms >= $3))
    ORDER BY t.generation LIMIT 1"""

# Deletes tokens of generations below $3, oldest first so that no gap is left, at most $4.
_PRUNE_TOKENS = """DELETE FROM {table}
 WHERE seller_id = $1 AND family_id = $2 AND generation IN (WITH old AS MATERIALIZED (
    SELECT generation FROM {table} WHERE seller_id = $1 AND family_id = $2 AND generation < $3
     ORDER BY generation LIMIT $4) SELECT * FROM old)"""

TABLES = ("refresh_tokens", "access_tokens")
FIRST_KEPT = {table: _FIRST_KEPT.format(table=table) for table in TABLES}
PRUNE_TOKENS = {table: _PRUNE_TOKENS.format(table=table) for table in TABLES}

# Deletes a family without tokens.
PRUNE_FAMILY = """DELETE FROM token_families WHERE seller_id = $1 AND family_id = $2
    AND NOT EXISTS (SELECT 1 FROM refresh_tokens t WHERE t.seller_id = $1 AND t.family_id = $2)
    AND NOT EXISTS (SELECT 1 FROM access_tokens t WHERE t.seller_id = $1 AND t.family_id = $2)"""


@dataclass(frozen=True, slots=True)
class FamilyAge:
    """When a token family ended, and when its newest and oldest tokens expire (0 if there is no such token)."""

    family_id: bytes
    generation: int
    revoked_ms: int | None
    withdrawn_ms: int | None
    newest_refresh_ms: int
    newest_access_ms: int
    oldest_refresh_ms: int
    oldest_access_ms: int

    def ended_before(self, before_ms: int) -> bool:
        """Return whether the family was revoked, or its authorization withdrawn, before that instant."""
        return any(ended_ms is not None and ended_ms < before_ms for ended_ms in (self.revoked_ms, self.withdrawn_ms))

    def idle_since(self, before_ms: int) -> bool:
        """Return whether the newest tokens expired before that instant."""
        return max(self.newest_refresh_ms, self.newest_access_ms) < before_ms

    def is_due(self, before_ms: int) -> bool:
        """Return whether there may be tokens to delete."""
        oldest = (self.oldest_refresh_ms, self.oldest_access_ms)
        expired = any(0 < expires_ms < before_ms for expires_ms in oldest)
        return expired or self.ended_before(before_ms) or self.idle_since(before_ms)


async def page_of_families(tx: Transaction, seller_id: int, after: bytes) -> list[FamilyAge]:
    """Return the seller's next families; after fewer than `FAMILIES_PER_PAGE` there are no more."""
    return [FamilyAge(*row) for row in await tx.all(FAMILIES, seller_id, after, FAMILIES_PER_PAGE)]


async def prune_family(tx: Transaction, seller_id: int, family: FamilyAge, before_ms: int, limit: int) -> int:
    """Delete old tokens of a family, or all of them and the family if it is over. Returns the number of tokens.

    If the family was refreshed since it was read, some tokens stay until the next sweep.
    """
    is_over = family.ended_before(before_ms)
    if not is_over and family.idle_since(before_ms):
        # With changed lifetimes, old tokens may outlive newer ones.
        is_over = await tx.one(VALID, seller_id, family.family_id, before_ms) is None
    left = limit
    for table in TABLES:
        below = family.generation + 1
        if not is_over:
            row = await tx.one(FIRST_KEPT[table], seller_id, family.family_id, before_ms)
            below = min(family.generation - 1, row[0] if row else family.generation)
        if left:
            left -= await tx.run(PRUNE_TOKENS[table], seller_id, family.family_id, below, left)
    if is_over:
        await tx.run(PRUNE_FAMILY, seller_id, family.family_id)
    return limit - left
