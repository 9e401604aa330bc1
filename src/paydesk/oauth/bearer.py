"""Bearers: who an access token acts for. One SELECT, remembered for a few seconds; the unknown is never remembered.

What takes the force of an access token stands here alone, for whoever asks.
"""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core import ids
from paydesk.core.cache import Cache
from paydesk.core.errors import FORBIDDEN, UNAUTHORIZED, Refusal
from paydesk.core.secrets import digest
from paydesk.core.signals import EVERYTHING
from paydesk.oauth import authorizations, tokens
from paydesk.oauth.scopes import shared
from paydesk.operation import Caller
from paydesk.storage.database import Database, Transaction

ENTRIES_MAX = 10_000

# Out: an access token with everything that can take its force.
ACCESS_TOKEN = """SELECT t.family_id, c.authorization_id, t.scope, t.expires_ms, t.expired_ms, t.revoked_ms,
        c.application_id, c.live, c.revoked_ms, a.withdrawn_ms,
        s.currency, s.country, s.suspended_ms, p.suspended_ms, t.created_ms, p.scopes
    FROM access_tokens t
    JOIN token_families c ON c.seller_id = t.seller_id AND c.family_id = t.family_id
    JOIN authorizations a ON a.seller_id = c.seller_id AND a.authorization_id = c.authorization_id
    JOIN sellers s ON s.seller_id = t.seller_id
    JOIN applications p ON p.application_id = c.application_id
    WHERE t.seller_id = $1 AND t.digest = $2"""

# good -> expired: once it was refused as expired it stays so.
EXPIRE = "UPDATE access_tokens SET expired_ms = $3 WHERE seller_id = $1 AND digest = $2 AND expired_ms IS NULL"

# good, expired -> revoked, alone.
REVOKE = "UPDATE access_tokens SET revoked_ms = $3 WHERE seller_id = $1 AND digest = $2 AND revoked_ms IS NULL"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """An access token as it stands, with what else can take its force."""

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
        """The scopes that it was issued with and that its application still has."""
        return shared(self.scope, self.application_scopes)

    @property
    def family_topic(self) -> str:
        """What wakes those who remember the token when it loses its force."""
        return f"family:{self.family_id.hex()}"

    def is_expired(self, now_ms: int) -> bool:
        """Whether its time is over; once it was refused for that it stays so."""
        return self.expired_ms is not None or now_ms >= self.expires_ms

    def runs_out(self, now_ms: int) -> bool:
        """Whether it is expired, and that is not written down yet."""
        return self.expired_ms is None and self.is_expired(now_ms)

    def refusal(self, now_ms: int) -> Refusal | None:
        """Why it is not good, or None."""
        if self.revoked_ms is not None or self.family_revoked_ms is not None:
            return UNAUTHORIZED.with_reason("revoked", credential_was_valid=True)
        if self.withdrawn_ms is not None:
            return UNAUTHORIZED.with_reason("authorization withdrawn", credential_was_valid=True)
        if self.is_expired(now_ms):
            return UNAUTHORIZED.with_reason("expired", credential_was_valid=True)
        if self.seller_suspended_ms is not None:
            return FORBIDDEN.with_reason("seller suspended")
        if self.application_suspended_ms is not None:
            return FORBIDDEN.with_reason("application suspended")
        return None

    def bearer(self) -> Bearer:
        """Whom it stands for."""
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
    """A good access token: the caller that it stands for, what its end is told as, and until when it is good."""

    caller: Caller
    topics: tuple[str, ...]
    expires_ms: int


class Bearers:
    """The access tokens as this node knows them, at most `cache_seconds` behind the other nodes."""

    def __init__(self, database: Database, cache_seconds: float) -> None:
        self._database = database
        self._cache: Cache[bytes, Bearer] = Cache(cache_seconds, ENTRIES_MAX)
        self._changes = 0
        database.signals.listen("family:", self._one_changed)
        database.signals.listen("authorization:", self._one_changed)
        database.signals.listen("applications", self._anything_changed)
        database.signals.listen("sellers", self._anything_changed)
        database.signals.listen(EVERYTHING, self._anything_changed)

    async def caller(self, token: str | None, now_ms: int) -> Caller:
        """Who calls. Raises UNAUTHORIZED, and FORBIDDEN where the seller or the application is suspended."""
        if not token:
            raise UNAUTHORIZED.with_reason("no token", message="authorization value not present")
        key = digest(token)
        bearer = self._cache.get(key)
        if bearer is None or now_ms >= bearer.expires_ms:
            bearer = await self._look_up(token, key, now_ms)
        return bearer.caller

    async def _look_up(self, token: str, key: bytes, now_ms: int) -> Bearer:
        seller_id = ids.seller_of(token) if tokens.is_access_token(token) else None
        if seller_id is None:
            raise UNAUTHORIZED.with_reason("unknown token")
        changes = self._changes
        row = await self._database.read(lambda tx: find(tx, seller_id, key))
        if row is None:
            raise UNAUTHORIZED.with_reason("unknown token")
        refusal = row.refusal(now_ms)
        if refusal is not None:
            if row.runs_out(now_ms):
                await self._database.write(lambda tx: expire(tx, row, now_ms))
            refusal.facts = {"application_id": row.application_id, "seller_id": row.seller_id}
            raise refusal
        bearer = row.bearer()
        if changes == self._changes:
            # What was read before a change must not outlive it.
            self._cache.put(key, bearer)
        return bearer

    def _one_changed(self, topic: str) -> None:
        self._changes += 1
        self._cache.drop_where(lambda bearer: topic in bearer.topics)

    def _anything_changed(self, _topic: str) -> None:
        self._changes += 1
        self._cache.clear()


async def find(tx: Transaction, seller_id: int, key: bytes) -> AccessToken | None:
    """The access token of that digest, or None."""
    row = await tx.one(ACCESS_TOKEN, seller_id, key)
    return AccessToken(seller_id, key, *row) if row else None


async def expire(tx: Transaction, token: AccessToken, now_ms: int) -> None:
    """Write down that it was refused as expired; nobody may remember it as good when the clock goes back."""
    await tx.run(EXPIRE, token.seller_id, token.digest, now_ms)
    tx.notify(token.family_topic)


async def revoke(tx: Transaction, token: AccessToken, now_ms: int) -> None:
    """It is good for nothing from now on; the rest of its family stays as it is."""
    await tx.run(REVOKE, token.seller_id, token.digest, now_ms)
    tx.notify(token.family_topic)
