"""Device tokens as bearers: look up the terminal of a token with one SELECT, cached for a few seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paydesk.core import ids
from paydesk.core.errors import UNAUTHORIZED
from paydesk.core.limits.cache import LookupCache
from paydesk.core.secrets import digest
from paydesk.platform.operation import Caller
from paydesk.platform.storage.database import Database

ENTRIES_MAX = 10_000
REVOKED_GRACE_MS = 7 * 86_400_000

# The tokens of a deleted terminal, which are revoked, may still report results.
BY_DIGEST = """SELECT d.terminal_id, d.revoked_ms, COALESCE(t.live, 0), s.currency, s.country
    FROM device_tokens d
    LEFT JOIN terminals t ON t.seller_id = d.seller_id AND t.terminal_id = d.terminal_id
    JOIN sellers s ON s.seller_id = d.seller_id
    WHERE d.seller_id = $1 AND d.digest = $2"""


@dataclass(frozen=True, slots=True)
class Bearer:
    """A device token: the terminal that it authenticates, and when it was revoked."""

    caller: Caller
    revoked_ms: int | None


class DeviceBearers:
    """A cache of device tokens, at most `cache_seconds` behind changes on other nodes.

    Terminals of a suspended seller are accepted: the current order must end, and no new order can be created.
    """

    def __init__(self, database: Database, cache_seconds: float) -> None:
        self._database = database
        self._cache: LookupCache[bytes, Bearer] = LookupCache(cache_seconds, ENTRIES_MAX, database.signals)
        self._cache.drop_on("device:", lambda topic, bearer: topic == f"device:{bearer.caller.terminal_id}")

    async def caller(self, token: str | None, now_ms: int) -> Caller:
        """Return the calling terminal, with `revoked_ms` if its token may only report results. Raises UNAUTHORIZED."""
        if not token:
            raise UNAUTHORIZED.with_reason("no token", message="authorization value not present")
        key = digest(token)
        bearer = self._cache.get(key) or await self._cache.fetch(key, self._look_up(token, key))
        if bearer.revoked_ms is None:
            return bearer.caller
        if now_ms >= bearer.revoked_ms + REVOKED_GRACE_MS:
            refusal = UNAUTHORIZED.with_reason(
                "revoked more than 7 days ago",
                "the token was revoked; pair the terminal again",
                credential_was_valid=True,
            )
            refusal.facts = {"seller_id": bearer.caller.seller_id, "terminal_id": bearer.caller.terminal_id}
            raise refusal
        return replace(bearer.caller, revoked_ms=bearer.revoked_ms)

    async def _look_up(self, token: str, key: bytes) -> Bearer:
        seller_id = ids.seller_of(token) if token.startswith("PDT-") else None
        if seller_id is None:
            raise UNAUTHORIZED.with_reason("unknown token")
        row = await self._database.read(lambda tx: tx.one(BY_DIGEST, seller_id, key))
        if row is None:
            raise UNAUTHORIZED.with_reason("unknown token")
        terminal_id, revoked_ms, live, currency, country = row
        caller = Caller(
            seller_id,
            live=bool(live),
            currency=currency,
            country=country,
            terminal_id=terminal_id,
            token_digest=key,
        )
        return Bearer(caller, revoked_ms)
