"""The SQL of codes, token families and tokens. Each exchange, refresh and revocation is one conditional UPDATE."""

from __future__ import annotations

import msgspec

from paydesk.core.secrets import digest
from paydesk.oauth import lifecycle
from paydesk.oauth.tokens import Generation, TokenFamily
from paydesk.storage.database import Row, Transaction


class Grant(msgspec.Struct, frozen=True):
    """What a code and a refresh token have in common: whose they are, and whether they may be redeemed at all."""

    seller_id: int
    application_id: int
    authorization_id: str
    scope: str
    withdrawn_ms: int | None
    seller_suspended_ms: int | None


class Code(msgspec.Struct, frozen=True):
    """A code as it stands."""

    grant: Grant
    redirect_uri: str
    challenge: str | None
    expires_ms: int
    expired_ms: int | None
    exchanged_ms: int | None
    family_id: bytes | None

    def is_good(self, now_ms: int) -> bool:
        """Whether it can be redeemed still."""
        over = (self.exchanged_ms, self.expired_ms, self.grant.withdrawn_ms, self.grant.seller_suspended_ms)
        return now_ms < self.expires_ms and all(instant_ms is None for instant_ms in over)


class RefreshToken(msgspec.Struct, frozen=True):
    """A refresh token as it stands: its own generation, and its family with the newest one."""

    grant: Grant
    family: TokenFamily
    generation: int
    expires_ms: int
    newest_generation: int
    expired_ms: int | None
    revoked_ms: int | None
    revoked_reason: str | None
    created_ms: int

    @property
    def used(self) -> bool:
        """Whether it has a successor."""
        return self.newest_generation > self.generation

    def is_expired(self, now_ms: int) -> bool:
        """Whether its time is over; only an unused token runs out, a used one is a repeat or a replay."""
        return self.expired_ms is not None or now_ms >= self.expires_ms


# In: a code, not yet exchanged.
INSERT_CODE = """INSERT INTO codes
    (seller_id, digest, authorization_id, application_id, redirect_uri, scope, challenge, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"""

# Out: a code with its authorization and its seller.
CODE = """SELECT c.seller_id, c.application_id, c.authorization_id, c.scope, a.withdrawn_ms, s.suspended_ms,
        c.redirect_uri, c.challenge, c.expires_ms, c.expired_ms, c.exchanged_ms, c.family_id
    FROM codes c
    JOIN authorizations a ON a.seller_id = c.seller_id AND a.authorization_id = c.authorization_id
    JOIN sellers s ON s.seller_id = c.seller_id
    WHERE c.seller_id = $1 AND c.digest = $2"""

# fresh -> exchanged: of many who present a code at once, this lets one through.
CLAIM_CODE = f"""UPDATE codes SET exchanged_ms = $3, family_id = $4
    WHERE seller_id = $1 AND digest = $2 AND {lifecycle.EXCHANGE.guard("codes")}"""

# fresh, exchanged -> expired: once it was refused as expired it stays so.
EXPIRE_CODE = "UPDATE codes SET expired_ms = $3 WHERE seller_id = $1 AND digest = $2 AND expired_ms IS NULL"

# In: a family at its first generation.
INSERT_FAMILY = """INSERT INTO token_families
    (seller_id, family_id, authorization_id, application_id, live, scope, generation, created_ms)
    VALUES ($1, $2, $3, $4, $5, $6, 1, $7)"""

# generation g -> g + 1: of many who redeem a refresh token at once, this lets one make the successor, and none once
# the family is revoked or its newest token was refused as expired.
CLAIM_SUCCESSOR = f"""UPDATE token_families SET generation = generation + 1
    WHERE seller_id = $1 AND family_id = $2 AND generation = $3 AND {lifecycle.REFRESH.guard("token_families")}"""

# open -> expired: the newest refresh token was refused as expired and stays so.
EXPIRE_FAMILY = f"""UPDATE token_families SET expired_ms = $4
    WHERE seller_id = $1 AND family_id = $2 AND generation = $3 AND {lifecycle.EXPIRE.guard("token_families")}"""

# open, expired -> revoked, with all its tokens.
REVOKE_FAMILY = f"""UPDATE token_families SET revoked_ms = $3, revoked_reason = $4
    WHERE seller_id = $1 AND family_id = $2 AND {lifecycle.REVOKE.guard("token_families")}"""

# In: the refresh token of a generation.
INSERT_REFRESH_TOKEN = """INSERT INTO refresh_tokens
    (seller_id, digest, family_id, generation, key_version, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7)"""

# In: the access token of a generation.
INSERT_ACCESS_TOKEN = """INSERT INTO access_tokens
    (seller_id, digest, family_id, generation, key_version, scope, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""

# Out: a refresh token with its family, its authorization and its seller.
REFRESH_TOKEN = """SELECT c.seller_id, c.application_id, c.authorization_id, c.scope, a.withdrawn_ms, s.suspended_ms,
        c.family_id, c.live, t.generation, t.expires_ms, c.generation, c.expired_ms, c.revoked_ms, c.revoked_reason,
        t.created_ms
    FROM refresh_tokens t
    JOIN token_families c ON c.seller_id = t.seller_id AND c.family_id = t.family_id
    JOIN authorizations a ON a.seller_id = c.seller_id AND a.authorization_id = c.authorization_id
    JOIN sellers s ON s.seller_id = c.seller_id
    WHERE t.seller_id = $1 AND t.digest = $2"""

# Out: two neighbouring generations of a family, or the first of them alone.
GENERATIONS = """SELECT generation, key_version, scope, created_ms, expires_ms, digest FROM access_tokens
    WHERE seller_id = $1 AND family_id = $2 AND generation IN ($3, $4) ORDER BY generation"""


async def add_code(
    tx: Transaction,
    code: str,
    grant: Grant,
    *,
    redirect_uri: str,
    challenge: str | None,
    now_ms: int,
    expires_ms: int,
) -> None:
    """Keep a code, by its digest."""
    await tx.run(
        INSERT_CODE,
        grant.seller_id,
        digest(code),
        grant.authorization_id,
        grant.application_id,
        redirect_uri,
        grant.scope,
        challenge,
        now_ms,
        expires_ms,
    )


async def find_code(tx: Transaction, seller_id: int, code: str) -> Code | None:
    """The code, or None."""
    row = await tx.one(CODE, seller_id, digest(code))
    return Code(Grant(*row[:6]), *row[6:]) if row else None


async def claim_code(tx: Transaction, seller_id: int, code: str, family_id: bytes, now_ms: int) -> bool:
    """Exchange the code for a family; False where somebody has, or where it was refused as expired."""
    return bool(await tx.run(CLAIM_CODE, seller_id, digest(code), now_ms, family_id))


async def expire_code(tx: Transaction, seller_id: int, code: str, now_ms: int) -> None:
    """Write down that the code was refused as expired."""
    await tx.run(EXPIRE_CODE, seller_id, digest(code), now_ms)


async def add_family(tx: Transaction, family: TokenFamily, authorization_id: str, now_ms: int) -> None:
    """Keep a new family, at its first generation."""
    await tx.run(
        INSERT_FAMILY,
        family.seller_id,
        family.family_id,
        authorization_id,
        family.application_id,
        int(family.live),
        family.scope,
        now_ms,
    )


async def claim_successor(tx: Transaction, family: TokenFamily, generation: int) -> bool:
    """Make room for the one successor of `generation`; False where it was made, or where the family has ended."""
    return bool(await tx.run(CLAIM_SUCCESSOR, family.seller_id, family.family_id, generation))


async def expire_family(tx: Transaction, family: TokenFamily, generation: int, now_ms: int) -> bool:
    """Write down that the refresh token of `generation`, the newest, was refused as expired; False where it is not."""
    return bool(await tx.run(EXPIRE_FAMILY, family.seller_id, family.family_id, generation, now_ms))


async def revoke_family(tx: Transaction, seller_id: int, family_id: bytes, now_ms: int, reason: str) -> bool:
    """End a family with all its tokens, refresh and access; False where it had ended so before."""
    tx.notify(f"family:{family_id.hex()}")
    return bool(await tx.run(REVOKE_FAMILY, seller_id, family_id, now_ms, reason))


def add_refresh_token(
    tx: Transaction, family: TokenFamily, generation: Generation, refresh_token: str, expires_ms: int
) -> None:
    """Keep the refresh token of a generation, by its digest."""
    tx.defer(
        INSERT_REFRESH_TOKEN,
        family.seller_id,
        digest(refresh_token),
        family.family_id,
        generation.number,
        generation.key_version,
        generation.created_ms,
        expires_ms,
    )


def add_access_token(tx: Transaction, family: TokenFamily, generation: Generation, access_token: str) -> None:
    """Keep the access token of a generation, by its digest."""
    tx.defer(
        INSERT_ACCESS_TOKEN,
        family.seller_id,
        digest(access_token),
        family.family_id,
        generation.number,
        generation.key_version,
        generation.scope,
        generation.created_ms,
        generation.expires_ms,
    )


async def find_refresh_token(tx: Transaction, seller_id: int, refresh_token: str) -> RefreshToken | None:
    """The refresh token, or None."""
    row = await tx.one(REFRESH_TOKEN, seller_id, digest(refresh_token))
    return _refresh_token(row) if row else None


async def find_generations(tx: Transaction, family: TokenFamily, number: int) -> dict[int, Generation]:
    """The generations `number` and `number + 1` of a family, as far as there are such."""
    rows = await tx.all(GENERATIONS, family.seller_id, family.family_id, number, number + 1)
    return {row[0]: Generation(*row) for row in rows}


def _refresh_token(row: Row) -> RefreshToken:
    grant = Grant(*row[:6])
    family = TokenFamily(grant.seller_id, row[6], grant.application_id, bool(row[7]), grant.scope)
    return RefreshToken(grant, family, *row[8:])
