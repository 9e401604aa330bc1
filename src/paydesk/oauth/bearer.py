"""Bearers: who an access token acts for. One SELECT, remembered for a few seconds; the unknown is never remembered."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk import ids
from paydesk.cache import Cache
from paydesk.errors import FORBIDDEN, UNAUTHORIZED
from paydesk.oauth import authorizations, tokens
from paydesk.operation import Caller
from paydesk.secrets import digest
from paydesk.signals import EVERYTHING
from paydesk.storage.database import Database, Transaction

ENTRIES_MAX = 10_000

# Out: an access token with everything that can take its force.
ACCESS_TOKEN = """SELECT t.chain_id, c.authorization_id, t.scope, t.expires_ms, t.expired_ms, t.revoked_ms,
        c.application_id, c.live, c.revoked_ms, a.withdrawn_ms,
        s.currency, s.country, s.suspended_ms, p.suspended_ms
    FROM access_tokens t
    JOIN token_chains c ON c.seller_id = t.seller_id AND c.chain_id = t.chain_id
    JOIN authorizations a ON a.seller_id = c.seller_id AND a.authorization_id = c.authorization_id
    JOIN sellers s ON s.seller_id = t.seller_id
    JOIN applications p ON p.application_id = c.application_id
    WHERE t.seller_id = $1 AND t.digest = $2"""

# good -> expired: once it was refused as expired it stays so.
EXPIRE = "UPDATE access_tokens SET expired_ms = $3 WHERE seller_id = $1 AND digest = $2 AND expired_ms IS NULL"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """An access token as it stands, with what else can take its force."""

    chain_id: bytes
    authorization_id: str
    scope: str
    expires_ms: int
    expired_ms: int | None
    revoked_ms: int | None
    application_id: int
    live: int
    chain_revoked_ms: int | None
    withdrawn_ms: int | None
    currency: str
    country: str
    seller_suspended_ms: int | None
    application_suspended_ms: int | None

    def bearer(self, seller_id: int) -> Bearer:
        """Whom it stands for."""
        caller = Caller(
            seller_id=seller_id,
            application_id=self.application_id,
            live=bool(self.live),
            scopes=frozenset(self.scope.split(" ")),
            currency=self.currency,
            country=self.country,
        )
        topics = (f"chain:{self.chain_id.hex()}", authorizations.topic(self.authorization_id))
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
        database.signals.listen("chain:", self._one_changed)
        database.signals.listen("authorization:", self._one_changed)
        database.signals.listen("applications", self._anything_changed)
        database.signals.listen("sellers", self._anything_changed)
        database.signals.listen(EVERYTHING, self._anything_changed)

    async def caller(self, token: str | None, now_ms: int) -> Caller:
        """Who calls. Raises UNAUTHORIZED, and FORBIDDEN where the seller or the application is suspended."""
        if not token:
            raise UNAUTHORIZED.because("no token", message="authorization value not present")
        key = digest(token)
        bearer = self._cache.get(key)
        if bearer is None or now_ms >= bearer.expires_ms:
            bearer = await self._look_up(token, key, now_ms)
        return bearer.caller

    async def _look_up(self, token: str, key: bytes, now_ms: int) -> Bearer:
        seller_id = ids.seller_of(token) if tokens.is_access_token(token) else None
        if seller_id is None:
            raise UNAUTHORIZED.because("unknown token")
        changes = self._changes
        row = await self._database.read(lambda tx: tx.one(ACCESS_TOKEN, seller_id, key))
        if row is None:
            raise UNAUTHORIZED.because("unknown token")
        token_row = AccessToken(*row)
        _refuse_ended(token_row)
        if token_row.expired_ms is not None or now_ms >= token_row.expires_ms:
            await self._expire(seller_id, key, f"chain:{token_row.chain_id.hex()}", now_ms)
            raise UNAUTHORIZED.because("expired")
        _refuse_suspended(token_row)
        bearer = token_row.bearer(seller_id)
        if changes == self._changes:
            # What was read before a change must not outlive it.
            self._cache.put(key, bearer)
        return bearer

    async def _expire(self, seller_id: int, key: bytes, chain_topic: str, now_ms: int) -> None:
        """Write down that it was refused; nobody may remember it as good when the clock goes back."""

        async def work(tx: Transaction) -> None:
            await tx.run(EXPIRE, seller_id, key, now_ms)
            tx.wake(chain_topic)

        await self._database.write(work)

    def _one_changed(self, topic: str) -> None:
        self._changes += 1
        self._cache.drop_where(lambda bearer: topic in bearer.topics)

    def _anything_changed(self, _topic: str) -> None:
        self._changes += 1
        self._cache.clear()


def _refuse_ended(token: AccessToken) -> None:
    if token.revoked_ms is not None or token.chain_revoked_ms is not None:
        raise UNAUTHORIZED.because("revoked")
    if token.withdrawn_ms is not None:
        raise UNAUTHORIZED.because("authorization withdrawn")


def _refuse_suspended(token: AccessToken) -> None:
    if token.seller_suspended_ms is not None:
        raise FORBIDDEN.because("seller suspended")
    if token.application_suspended_ms is not None:
        raise FORBIDDEN.because("application suspended")
