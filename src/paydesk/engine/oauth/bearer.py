"""Access tokens as bearers: look up the caller of a token with one SELECT, cached for a few seconds.

This module alone decides whether an access token is valid.
"""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core.errors import FORBIDDEN, UNAUTHORIZED, Refusal
from paydesk.core.limits.cache import LookupCache
from paydesk.core.secrets import digest
from paydesk.engine.oauth import authorizations, tokens
from paydesk.engine.oauth.scopes import shared
from paydesk.platform.operation import Caller
from paydesk.platform.storage.database import Database, Transaction

ENTRIES_MAX = 10_000
REFRESH = "get a new one from POST /oauth/token with grant_type refresh_token"
AUTHORIZE = "ask the seller to authorize the application again"

# Selects an access token with everything that can invalidate it.
ACCESS_TOKEN = """SELECT t.family_id, c.authorization_id, t.scope, t.expires_ms, t.expired_ms, t.revoked_ms,
        c.application_id, c.live, c.revoked_ms, a.withdrawn_ms,
        s.currency, s.country, s.suspended_ms, p.suspended_ms, t.created_ms, p.scopes
    FROM access_tokens t
    JOIN token_families c ON c.seller_id = t.seller_id AND c.family_id = t.family_id
    JOIN authorizations a ON a.seller_id = c.seller_id AND a.authorization_id = c.authorization_id
    JOIN sellers s ON s.seller_id = t.seller_id
    JOIN applications p ON p.application_id = c.application_id
    WHERE t.seller_id = $1 AND t.digest = $2"""

# valid -> expired: a token refused as expired stays expired, also if the clock is set back.
EXPIRE = "UPDATE access_tokens SET expired_ms = $3 WHERE seller_id = $1 AND digest = $2 AND expired_ms IS NULL"

# valid, expired -> revoked, this token alone.
REVOKE = "UPDATE access_tokens SET revoked_ms = $3 WHERE seller_id = $1 AND digest = $2 AND revoked_ms IS NULL"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """The row of an access token, joined with everything else that can invalidate it."""

    seller_id: int
    digest: bytes
    family_id: bytes
    authorization_id: str
    scope: str
    expires_ms: int
    expired_ms: int | None
    revoked_ms: int | None
    application_id: int
    live: int
    family_revoked_ms: int | None
    withdrawn_ms: int | None
    currency: str
    country: str
    seller_suspended_ms: int | None
    application_suspended_ms: int | None
    created_ms: int
    application_scopes: str

    @property
    def effective_scope(self) -> str:
        """The scopes that the token was issued with and that its application still has."""
        return shared(self.scope, self.application_scopes)

    @property
    def family_topic(self) -> str:
        """The topic notified when the token or its family becomes invalid."""
        return f"family:{self.family_id.hex()}"

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the token has expired or was refused as expired before."""
        return self.expired_ms is not None or now_ms >= self.expires_ms

    def expires_now(self, now_ms: int) -> bool:
        """Return whether the token has expired and the expiry is not recorded yet."""
        return self.expired_ms is None and self.is_expired(now_ms)

    def refusal(self, now_ms: int) -> Refusal | None:
        """Return the refusal of an invalid token, or None."""
        if self.revoked_ms is not None or self.family_revoked_ms is not None:
            return UNAUTHORIZED.with_reason(
                "revoked", f"the access token was revoked; {REFRESH}, or {AUTHORIZE}", credential_was_valid=True
            )
        if self.withdrawn_ms is not None:
            detail = f"the seller has withdrawn the application's authorization; {AUTHORIZE}"
            return UNAUTHORIZED.with_reason("authorization withdrawn", detail, credential_was_valid=True)
        if self.is_expired(now_ms):
            return UNAUTHORIZED.with_reason(
                "expired", f"the access token has expired; {REFRESH}", credential_was_valid=True
            )
        if self.seller_suspended_ms is not None:
            return FORBIDDEN.with_reason("seller suspended")
        if self.application_suspended_ms is not None:
            return FORBIDDEN.with_reason("application suspended")
        return None

    def bearer(self) -> Bearer:
        """Return the caller that the token identifies, with what invalidates it."""
        caller = Caller(
            seller_id=self.seller_id,
            application_id=self.application_id,
            live=bool(self.live),
            scopes=frozenset(self.effective_scope.split()),
            currency=self.currency,
            country=self.country,
            token_digest=self.digest,
        )
        topics = (self.family_topic, authorizations.topic(self.authorization_id))
        return Bearer(caller, topics, self.expires_ms)


@dataclass(frozen=True, slots=True)
class Bearer:
    """The caller of a valid access token, the topics that invalidate it, and when it expires."""

    caller: Caller
    topics: tuple[str, ...]
    expires_ms: int


class Bearers:
    """The valid access tokens seen by this node, cached for `cache_seconds`.

    That is the maximum delay after which this node notices a change on another node whose signal was lost.
    """

    def __init__(self, database: Database, cache_seconds: float) -> None:
        self._database = database
        self._cache: LookupCache[bytes, Bearer] = LookupCache(cache_seconds, ENTRIES_MAX, database.signals)
        self._cache.drop_on("family:", lambda topic, bearer: topic in bearer.topics)
        self._cache.drop_on("authorization:", lambda topic, bearer: topic in bearer.topics)
        self._cache.clear_on("applications", "sellers")

    async def caller(self, token: str | None, now_ms: int) -> Caller:
        """Return the caller. Raises UNAUTHORIZED, or FORBIDDEN if the seller or the application is suspended."""
        if not token:
            raise UNAUTHORIZED.with_reason("no token", message="authorization value not present")
        key = digest(token)
        bearer = self._cache.get(key)
        if bearer is None or now_ms >= bearer.expires_ms:
            bearer = await self._cache.fetch(key, self._look_up(token, key, now_ms))
        return bearer.caller

    async def _look_up(self, token: str, key: bytes, now_ms: int) -> Bearer:
        seller_id = tokens.seller_of_access_token(token)
        row = await self._database.read(lambda tx: find(tx, seller_id, key)) if seller_id is not None else None
        if row is None:
            raise UNAUTHORIZED.with_reason("unknown token")
        refusal = row.refusal(now_ms)
        if refusal is not None:
            if row.expires_now(now_ms):
                await self._database.write(lambda tx: expire(tx, row, now_ms))
            refusal.facts = {"application_id": row.application_id, "seller_id": row.seller_id}
            raise refusal
        return row.bearer()


async def find(tx: Transaction, seller_id: int, key: bytes) -> AccessToken | None:
    """Return the access token with this digest, or None."""
    row = await tx.one(ACCESS_TOKEN, seller_id, key)
    return AccessToken(seller_id, key, *row) if row else None


async def expire(tx: Transaction, token: AccessToken, now_ms: int) -> None:
    """Record that the token was refused as expired, so that it stays expired if the clock is set back."""
    await tx.run(EXPIRE, token.seller_id, token.digest, now_ms)
    tx.notify(token.family_topic)


async def revoke(tx: Transaction, token: AccessToken, now_ms: int) -> None:
    """Revoke this token; the rest of its family stays valid."""
    await tx.run(REVOKE, token.seller_id, token.digest, now_ms)
    tx.notify(token.family_topic)
