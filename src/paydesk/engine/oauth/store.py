"""The SQL of codes, token families and tokens. Each exchange, refresh and revocation is one conditional UPDATE."""

from __future__ import annotations

import msgspec

from paydesk.core.keys import Keys
from paydesk.core.secrets import digest
from paydesk.engine.oauth import lifecycle, tokens
from paydesk.engine.oauth.tokens import Generation, Lifetimes, Pair, TokenFamily
from paydesk.platform.storage.database import Transaction


class Credential(msgspec.Struct, frozen=True):
    """The common part of a code and a refresh token: their authorization, with everything that forbids redeeming."""

    seller_id: int
    application_id: int
    authorization_id: str
    scope: str
    withdrawn_ms: int | None
    seller_suspended_ms: int | None


class Code(Credential, frozen=True):
    """The row of an authorization code."""

    redirect_uri: str
    challenge: str | None
    expires_ms: int
    expired_ms: int | None
    exchanged_ms: int | None
    family_id: bytes | None
    test_token: int | None
    """Whether it can only be exchanged for test tokens, or only for live ones; None if the exchange chooses."""

    def is_valid(self, now_ms: int) -> bool:
        """Return whether the code can be redeemed."""
        ends = (self.exchanged_ms, self.expired_ms, self.withdrawn_ms, self.seller_suspended_ms)
        return now_ms < self.expires_ms and all(instant_ms is None for instant_ms in ends)


class RefreshToken(Credential, frozen=True):
    """The row of a refresh token, with its family and the newest generation of the family."""

    family_id: bytes
    live: int
    generation: int
    expires_ms: int
    newest_generation: int
    expired_ms: int | None
    revoked_ms: int | None
    revoked_reason: str | None
    created_ms: int

    @property
    def family(self) -> TokenFamily:
        """The family of the token; its scope is that of the credential."""
        return TokenFamily(self.seller_id, self.family_id, self.application_id, bool(self.live), self.scope)

    @property
    def used(self) -> bool:
        """Return whether the token has a successor."""
        return self.newest_generation > self.generation

    def is_expired(self, now_ms: int) -> bool:
        """Return whether an unused token has expired; a used one is a retry or a replay, whatever its age."""
        return self.expired_ms is not None or now_ms >= self.expires_ms


# Selects a code with its authorization and its seller.
CODE = """SELECT c.seller_id, c.application_id, c.authorization_id, c.scope, a.withdrawn_ms, s.suspended_ms,
        c.redirect_uri, c.challenge, c.expires_ms, c.expired_ms, c.exchanged_ms, c.family_id, c.test_token
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

# Inserts the refresh token of a generation, which another refresh may have made.
INSERT_REFRESH_TOKEN = """INSERT INTO refresh_tokens
    (seller_id, digest, family_id, generation, key_version, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING"""

# Inserts the access token of a generation.
INSERT_ACCESS_TOKEN = """INSERT INTO access_tokens
    (seller_id, digest, family_id, generation, key_version, scope, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING"""

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


async def find_code(tx: Transaction, code: str) -> Code | None:
    """Return the code, or None if it is unknown or malformed."""
    seller_id = tokens.seller_of_code(code)
    row = await tx.one(CODE, seller_id, digest(code)) if seller_id is not None else None
    return Code(*row) if row else None


async def claim_code(tx: Transaction, seller_id: int, code: str, family_id: bytes, now_ms: int) -> bool:
    """Exchange the code for a family. Return False if it was exchanged or refused as expired before."""
    return bool(await tx.run(CLAIM_CODE, seller_id, digest(code), now_ms, family_id))


async def expire_code(tx: Transaction, seller_id: int, code: str, now_ms: int) -> None:
    """Record that the code was refused as expired."""
    await tx.run(EXPIRE_CODE, seller_id, digest(code), now_ms)


async def find_refresh_token(tx: Transaction, refresh_token: str) -> RefreshToken | None:
    """Return the refresh token, or None if it is unknown or malformed; a code has the same format and is not found."""
    seller_id = tokens.seller_of_code(refresh_token)
    row = await tx.one(REFRESH_TOKEN, seller_id, digest(refresh_token)) if seller_id is not None else None
    return RefreshToken(*row) if row else None


async def find_generations(tx: Transaction, family: TokenFamily, number: int) -> dict[int, Generation]:
    """Return the generations `number` and `number + 1` of a family, as far as they exist."""
    rows = await tx.all(GENERATIONS, family.seller_id, family.family_id, number, number + 1)
    return {row[0]: Generation(*row) for row in rows}


async def begin_family(
    tx: Transaction, keys: Keys, family: TokenFamily, authorization_id: str, now_ms: int, lifetimes: Lifetimes
) -> Pair:
    """Store a new family and issue the tokens of its first generation."""
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
    return issue(tx, keys, family, 1, family.scope, now_ms, lifetimes)


def claim_successor(tx: Transaction, family: TokenFamily, generation: int) -> None:
    """Claim the one successor of `generation`. If it exists or the family has ended, the work is overtaken."""
    tx.defer(CLAIM_SUCCESSOR, family.seller_id, family.family_id, generation, required=True)


def issue(
    tx: Transaction, keys: Keys, family: TokenFamily, number: int, scope: str, now_ms: int, lifetimes: Lifetimes
) -> Pair:
    """Issue the tokens of generation `number`, which the caller has claimed; `scope` is the access token's.

    Only their digests are stored.
    """
    seller_id, family_id, version = family.seller_id, family.family_id, keys.active
    expires_ms = now_ms + lifetimes.access_token_seconds * 1000
    pair = tokens.derive(keys, family, Generation(number, version, scope, now_ms, expires_ms))
    access_digest = digest(pair.access_token)
    access = (seller_id, access_digest, family_id, number, version, scope, now_ms, expires_ms)
    tx.defer(INSERT_ACCESS_TOKEN, *access, required=True)
    if pair.refresh_token is not None:
        expires_ms = now_ms + lifetimes.refresh_token_seconds * 1000
        refresh_digest = digest(pair.refresh_token)
        refresh = (seller_id, refresh_digest, family_id, number, version, now_ms, expires_ms)
        tx.defer(INSERT_REFRESH_TOKEN, *refresh, required=True)
    return pair


async def expire_family(tx: Transaction, family: TokenFamily, generation: int, now_ms: int) -> bool:
    """Record that the newest refresh token was refused as expired. Return False if `generation` is not the newest."""
    return bool(await tx.run(EXPIRE_FAMILY, family.seller_id, family.family_id, generation, now_ms))


async def revoke_family(tx: Transaction, seller_id: int, family_id: bytes, now_ms: int, reason: str) -> bool:
    """Revoke a family with all its tokens. Return False if it was revoked before."""
    tx.notify(f"family:{family_id.hex()}")
    return bool(await tx.run(REVOKE_FAMILY, seller_id, family_id, now_ms, reason))
