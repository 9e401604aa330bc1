"""The SQL of codes, token families and tokens. Each exchange, refresh and revocation is one conditional UPDATE."""

from __future__ import annotations

import msgspec

from paydesk.core.secrets import digest
from paydesk.oauth import lifecycle
from paydesk.oauth.tokens import Generation, TokenFamily
from paydesk.storage.database import Row, Transaction


class AuthorizationState(msgspec.Struct, frozen=True):
    """The authorization of a code or refresh token, with everything that forbids redeeming it."""

    seller_id: int
    application_id: int
    authorization_id: str
    scope: str
    withdrawn_ms: int | None
    seller_suspended_ms: int | None


class Code(msgspec.Struct, frozen=True):
    """The row of an authorization code."""

    authorization: AuthorizationState
    redirect_uri: str
    challenge: str | None
    expires_ms: int
    expired_ms: int | None
    exchanged_ms: int | None
    family_id: bytes | None

    def is_valid(self, now_ms: int) -> bool:
        """Return whether the code can be redeemed."""
        authorization = self.authorization
        ends = (self.exchanged_ms, self.expired_ms, authorization.withdrawn_ms, authorization.seller_suspended_ms)
        return now_ms < self.expires_ms and all(instant_ms is None for instant_ms in ends)


class RefreshToken(msgspec.Struct, frozen=True):
    """The row of a refresh token, with its family and the newest generation of the family."""

    authorization: AuthorizationState
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
        """Return whether the token has a successor."""
        return self.newest_generation > self.generation

    def is_expired(self, now_ms: int) -> bool:
        """Return whether an unused token has expired; a used one is a retry or a replay, whatever its age."""
        return self.expired_ms is not None or now_ms >= self.expires_ms


# Inserts an authorization code.
INSERT_CODE = """INSERT INTO codes
    (seller_id, digest, authorization_id, application_id, redirect_uri, scope, challenge, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"""

# Selects a code with its authorization and its seller.
CODE = """SELECT c.seller_id, c.application_id, c.authorization_id, c.scope, a.withdrawn_ms, s.suspended_ms,
        c.redirect_uri, c.challenge, c.expires_ms, c.expired_ms, c.exchanged_ms, c.family_id
    FROM codes c
    JOIN authorizations a ON a.seller_id = c.seller_id AND a.authorization_id = c.authorization_id
    JOIN sellers s ON s.seller_id = c.seller_id
    WHERE c.seller_id = $1 AND c.digest = $2"""

# issued -> exchanged: of concurrent exchanges of a code one succeeds.
CLAIM_CODE = f"""UPDATE codes SET exchanged_ms = $3, family_id = $4
    WHERE seller_id = $1 AND digest = $2 AND {lifecycle.EXCHANGE.guard("codes")}"""

# issued, exchanged -> expired: a code refused as expired stays expired, also if the clock is set back.
EXPIRE_CODE = "UPDATE codes SET expired_ms = $3 WHERE seller_id = $1 AND digest = $2 AND expired_ms IS NULL"

# Inserts a family at its first generation.
INSERT_FAMILY = """INSERT INTO token_families
    (seller_id, family_id, authorization_id, application_id, live, scope, generation, created_ms)
    VALUES ($1, $2, $3, $4, $5, $6, 1, $7)"""

# generation g -> g + 1: of concurrent refreshes one makes the successor, and none after the family was revoked or its
# newest token was refused as expired.
CLAIM_SUCCESSOR = f"""UPDATE token_families SET generation = generation + 1
    WHERE seller_id = $1 AND family_id = $2 AND generation = $3 AND {lifecycle.REFRESH.guard("token_families")}"""

# active -> expired: the newest refresh token was refused as expired and stays so.
EXPIRE_FAMILY = f"""UPDATE token_families SET expired_ms = $4
    WHERE seller_id = $1 AND family_id = $2 AND generation = $3 AND {lifecycle.EXPIRE.guard("token_families")}"""

# active, expired -> revoked, with all its tokens.
REVOKE_FAMILY = f"""UPDATE token_families SET revoked_ms = $3, revoked_reason = $4
    WHERE seller_id = $1 AND family_id = $2 AND {lifecycle.REVOKE.guard("token_families")}"""

# Inserts the refresh token of a generation.
INSERT_REFRESH_TOKEN = """INSERT INTO refresh_tokens
    (seller_id, digest, family_id, generation, key_version, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7)"""

# Inserts the access token of a generation.
INSERT_ACCESS_TOKEN = """INSERT INTO access_tokens
    (seller_id, digest, family_id, generation, key_version, scope, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""

# Selects a refresh token with its family, its authorization and its seller.
REFRESH_TOKEN = """SELECT c.seller_id, c.application_id, c.authorization_id, c.scope, a.withdrawn_ms, s.suspended_ms,
        c.family_id, c.live, t.generation, t.expires_ms, c.generation, c.expired_ms, c.revoked_ms, c.revoked_reason,
        t.created_ms
    FROM refresh_tokens t
    JOIN token_families c ON c.seller_id = t.seller_id AND c.family_id = t.family_id
    JOIN authorizations a ON a.seller_id = c.seller_id AND a.authorization_id = c.authorization_id
    JOIN sellers s ON s.seller_id = c.seller_id
    WHERE t.seller_id = $1 AND t.digest = $2"""

# Selects two consecutive generations of a family, or only the first.
GENERATIONS = """SELECT generation, key_version, scope, created_ms, expires_ms, digest FROM access_tokens
    WHERE seller_id = $1 AND family_id = $2 AND generation IN ($3, $4) ORDER BY generation"""


async def add_code(
    tx: Transaction,
    code: str,
    authorization: AuthorizationState,
    *,
    redirect_uri: str,
    challenge: str | None,
    now_ms: int,
    expires_ms: int,
) -> None:
    """Store the digest of a code."""
    await tx.run(
        INSERT_CODE,
        authorization.seller_id,
        digest(code),
        authorization.authorization_id,
        authorization.application_id,
        redirect_uri,
        authorization.scope,
        challenge,
        now_ms,
        expires_ms,
    )


async def find_code(tx: Transaction, seller_id: int, code: str) -> Code | None:
    """Return the code, or None."""
    row = await tx.one(CODE, seller_id, digest(code))
    return Code(AuthorizationState(*row[:6]), *row[6:]) if row else None


async def claim_code(tx: Transaction, seller_id: int, code: str, family_id: bytes, now_ms: int) -> bool:
    """Exchange the code for a family. Return False if it was exchanged or refused as expired before."""
    return bool(await tx.run(CLAIM_CODE, seller_id, digest(code), now_ms, family_id))


async def expire_code(tx: Transaction, seller_id: int, code: str, now_ms: int) -> None:
    """Record that the code was refused as expired."""
    await tx.run(EXPIRE_CODE, seller_id, digest(code), now_ms)


async def add_family(tx: Transaction, family: TokenFamily, authorization_id: str, now_ms: int) -> None:
    """Store a new family at its first generation."""
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
    """Claim the one successor of `generation`. Return False if it exists or the family has ended."""
    return bool(await tx.run(CLAIM_SUCCESSOR, family.seller_id, family.family_id, generation))


async def expire_family(tx: Transaction, family: TokenFamily, generation: int, now_ms: int) -> bool:
    """Record that the newest refresh token was refused as expired. Return False if `generation` is not the newest."""
    return bool(await tx.run(EXPIRE_FAMILY, family.seller_id, family.family_id, generation, now_ms))


async def revoke_family(tx: Transaction, seller_id: int, family_id: bytes, now_ms: int, reason: str) -> bool:
    """Revoke a family with all its tokens. Return False if it was revoked before."""
    tx.notify(f"family:{family_id.hex()}")
    return bool(await tx.run(REVOKE_FAMILY, seller_id, family_id, now_ms, reason))


def add_refresh_token(
    tx: Transaction, family: TokenFamily, generation: Generation, refresh_token: str, expires_ms: int
) -> None:
    """Store the digest of a generation's refresh token."""
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
    """Store the digest of a generation's access token."""
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
    """Return the refresh token, or None."""
    row = await tx.one(REFRESH_TOKEN, seller_id, digest(refresh_token))
    return _refresh_token(row) if row else None


async def find_generations(tx: Transaction, family: TokenFamily, number: int) -> dict[int, Generation]:
    """Return the generations `number` and `number + 1` of a family, as far as they exist."""
    rows = await tx.all(GENERATIONS, family.seller_id, family.family_id, number, number + 1)
    return {row[0]: Generation(*row) for row in rows}


def _refresh_token(row: Row) -> RefreshToken:
    authorization = AuthorizationState(*row[:6])
    family = TokenFamily(
        authorization.seller_id, row[6], authorization.application_id, bool(row[7]), authorization.scope
    )
    return RefreshToken(authorization, family, *row[8:])
