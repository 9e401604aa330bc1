"""Pruning of codes, token families and tokens. A pruned token is refused as unknown.

An old refresh token that is used again must be known as a replay, which ends its family: it is kept until it would have
expired by itself. Of a family that lives, the tokens that answer a repeat are kept for as long as it lives.
"""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.storage.database import Transaction

FAMILIES_PER_PAGE = 100

# Out: codes that ended before $2 are gone, at most $3. Used or not, they end when they expire.
PRUNE_CODES = """DELETE FROM codes WHERE seller_id = $1 AND digest IN (WITH old AS MATERIALIZED (
    SELECT digest FROM codes WHERE seller_id = $1 AND expires_ms < $2
     ORDER BY expires_ms LIMIT $3 FOR UPDATE SKIP LOCKED) SELECT * FROM old)"""


def _expiry(table: str, which: str) -> str:
    return (
        f"COALESCE((SELECT t.expires_ms FROM {table} t"
        f" WHERE t.seller_id = c.seller_id AND t.family_id = c.family_id {which}), 0)"
    )


_NEWEST, _OLDEST = "AND t.generation = c.generation", "ORDER BY t.generation LIMIT 1"

# Out: a page of a seller's families, from $2 on, with when their newest and their oldest tokens expire.
FAMILIES = f"""SELECT c.family_id, c.generation, c.revoked_ms, a.withdrawn_ms,
        {_expiry("refresh_tokens", _NEWEST)}, {_expiry("access_tokens", _NEWEST)},
        {_expiry("refresh_tokens", _OLDEST)}, {_expiry("access_tokens", _OLDEST)}
    FROM token_families c
    JOIN authorizations a ON a.seller_id = c.seller_id AND a.authorization_id = c.authorization_id
    WHERE c.seller_id = $1 AND c.family_id > $2 ORDER BY c.family_id LIMIT $3"""

# Out: one token of a family that has not expired before $3, or None.
_GOOD = "SELECT 1 FROM {table} WHERE seller_id = $1 AND family_id = $2 AND expires_ms >= $3"
STILL_GOOD = f"{_GOOD.format(table='refresh_tokens')} UNION ALL {_GOOD.format(table='access_tokens')} LIMIT 1"

# Out: the oldest generation that has not expired before $3, or whose successor is younger than that.
_FIRST_KEPT = """SELECT t.generation FROM {table} t
    WHERE t.seller_id = $1 AND t.family_id = $2
      AND (t.expires_ms >= $3
           OR EXISTS (SELECT 1 FROM {table} n WHERE n.seller_id = $1 AND n.family_id = $2
                         AND n.generation = t.generation + 1 AND n.created_ms >= $3))
    ORDER BY t.generation LIMIT 1"""

# Out: the tokens of generations below $3 are gone, the oldest first, at most $4: what is left has no gap.
_PRUNE_TOKENS = """DELETE FROM {table}
 WHERE seller_id = $1 AND family_id = $2 AND generation IN (WITH old AS MATERIALIZED (
    SELECT generation FROM {table} WHERE seller_id = $1 AND family_id = $2 AND generation < $3
     ORDER BY generation LIMIT $4) SELECT * FROM old)"""

TABLES = ("refresh_tokens", "access_tokens")
FIRST_KEPT = {table: _FIRST_KEPT.format(table=table) for table in TABLES}
PRUNE_TOKENS = {table: _PRUNE_TOKENS.format(table=table) for table in TABLES}

# Out: a family without tokens is gone.
PRUNE_FAMILY = """DELETE FROM token_families WHERE seller_id = $1 AND family_id = $2
    AND NOT EXISTS (SELECT 1 FROM refresh_tokens t WHERE t.seller_id = $1 AND t.family_id = $2)
    AND NOT EXISTS (SELECT 1 FROM access_tokens t WHERE t.seller_id = $1 AND t.family_id = $2)"""


@dataclass(frozen=True, slots=True)
class FamilyAge:
    """A family, and when it ended or its newest and its oldest tokens expire (0 where there is no such token)."""

    family_id: bytes
    generation: int
    revoked_ms: int | None
    withdrawn_ms: int | None
    newest_refresh_ms: int
    newest_access_ms: int
    oldest_refresh_ms: int
    oldest_access_ms: int

    def ended_before(self, before_ms: int) -> bool:
        """Whether it was revoked, or its authorization withdrawn, before."""
        return any(ended_ms is not None and ended_ms < before_ms for ended_ms in (self.revoked_ms, self.withdrawn_ms))

    def idle_since(self, before_ms: int) -> bool:
        """Whether its newest tokens had expired before."""
        return max(self.newest_refresh_ms, self.newest_access_ms) < before_ms

    def is_due(self, before_ms: int) -> bool:
        """Whether there may be something to forget."""
        oldest = (self.oldest_refresh_ms, self.oldest_access_ms)
        expired = any(0 < expires_ms < before_ms for expires_ms in oldest)
        return expired or self.ended_before(before_ms) or self.idle_since(before_ms)


async def prune_codes(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Forget codes that expired before; how many."""
    return await tx.run(PRUNE_CODES, seller_id, before_ms, limit)


async def page_of_families(tx: Transaction, seller_id: int, after: bytes) -> list[FamilyAge]:
    """The seller's next families; fewer than `FAMILIES_PER_PAGE` are the last ones."""
    return [FamilyAge(*row) for row in await tx.all(FAMILIES, seller_id, after, FAMILIES_PER_PAGE)]


async def prune_family(tx: Transaction, seller_id: int, family: FamilyAge, before_ms: int, limit: int) -> int:
    """Forget old tokens of a family, all of them and the family itself where it ended before; how many tokens, at most.

    The family may have been refreshed since it was read: then a little less is forgotten than might be.
    """
    whole = await _is_over(tx, seller_id, family, before_ms)
    left = limit
    for table in TABLES:
        below = family.generation + 1 if whole else await _below(tx, table, seller_id, family, before_ms)
        if left:
            left -= await tx.run(PRUNE_TOKENS[table], seller_id, family.family_id, below, left)
    if whole:
        await tx.run(PRUNE_FAMILY, seller_id, family.family_id)
    return limit - left


async def _is_over(tx: Transaction, seller_id: int, family: FamilyAge, before_ms: int) -> bool:
    """Whether nothing of the family is good for anything; tokens made under other lifetimes may outlive newer ones."""
    if family.ended_before(before_ms):
        return True
    return family.idle_since(before_ms) and await tx.one(STILL_GOOD, seller_id, family.family_id, before_ms) is None


async def _below(tx: Transaction, table: str, seller_id: int, family: FamilyAge, before_ms: int) -> int:
    """The generation below which a living family forgets: the newest and the one before it answer repeats."""
    row = await tx.one(FIRST_KEPT[table], seller_id, family.family_id, before_ms)
    return min(family.generation - 1, row[0] if row else family.generation)
