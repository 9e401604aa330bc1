"""A seller's consent: what was asked on which page, decided once, and the code that agreeing makes.

The code is derived from what the page carried, which nobody keeps: so a second click on the same answer is told the
same.
"""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core.errors import Refusal
from paydesk.core.keys import Keys
from paydesk.core.secrets import digest, new_hex
from paydesk.oauth import issuing, store, tokens
from paydesk.oauth.clients import applications
from paydesk.oauth.consent import authorization
from paydesk.oauth.consent.authorization import Asked
from paydesk.oauth.consent.errors import APPLICATION_CHANGED, REQUEST_DECIDED
from paydesk.oauth.consent.sessions import Session
from paydesk.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class Decision:
    """Where the browser goes on, and with what: a code, or none where the seller refused."""

    redirect_uri: str
    state: str | None
    code: str | None


# In: what a page asks.
INSERT = """INSERT INTO consent_requests (seller_id, digest, session_digest, application_id, redirect_uri, scope,
        challenge, state, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"""

# asked -> decided: of many who answer one page, at once or later, this lets one through, in the session it was for.
DECIDE = """UPDATE consent_requests SET decided_ms = $4
    WHERE seller_id = $1 AND digest = $2 AND session_digest = $3 AND decided_ms IS NULL AND expires_ms > $4
    RETURNING application_id, redirect_uri, scope, challenge, state"""

# Out: what was decided within its time.
DECIDED = """SELECT application_id, redirect_uri, scope, challenge, state FROM consent_requests
    WHERE seller_id = $1 AND digest = $2 AND session_digest = $3 AND decided_ms < expires_ms"""

# asked -> decided, by nobody: once it was refused as expired it stays so.
EXPIRE = """UPDATE consent_requests SET decided_ms = $4
    WHERE seller_id = $1 AND digest = $2 AND session_digest = $3 AND decided_ms IS NULL"""


async def ask(tx: Transaction, *, session: Session, asked: Asked, scope: str, now_ms: int, expires_ms: int) -> str:
    """Keep what a page asks of whoever is signed in; the value, 256 random bits, that its form carries."""
    value = new_hex(256)
    await tx.run(
        INSERT,
        session.seller_id,
        digest(value),
        session.digest,
        int(asked.client_id),
        asked.redirect_uri,
        scope,
        asked.code_challenge or None,
        asked.state or None,
        now_ms,
        expires_ms,
    )
    return value


async def decide(
    tx: Transaction, keys: Keys, *, session: Session, value: str, agreed: bool, now_ms: int, code_expires_ms: int
) -> Decision | Refusal:
    """Answer what was asked, once. Agreeing makes an authorization with its code, unless the application was changed.

    A refusal is to be kept: what was asked is decided by it. The same answer again is told what it was told before, as
    long as the code can be redeemed.
    """
    key = (session.seller_id, digest(value), session.digest)
    row = await tx.one(DECIDE, *key, now_ms)
    if row is None:
        if await tx.run(EXPIRE, *key, now_ms):
            return REQUEST_DECIDED.with_reason("expired")
        return await _again(tx, keys, key, value, agreed=agreed, now_ms=now_ms)
    application_id, redirect_uri, scope, challenge, state = row
    refusal = await _changed(tx, application_id, redirect_uri, scope, challenge)
    if refusal is not None:
        return refusal
    if not agreed:
        return Decision(redirect_uri, state, None)
    code = await issuing.mint_code(
        tx,
        application_id=application_id,
        seller_id=session.seller_id,
        redirect_uri=redirect_uri,
        scope=scope,
        challenge=challenge,
        now_ms=now_ms,
        expires_ms=code_expires_ms,
        code=tokens.code_of(keys, keys.active, session.seller_id, value),
    )
    return Decision(redirect_uri, state, code)


async def _again(
    tx: Transaction, keys: Keys, key: tuple[int, bytes, bytes], value: str, *, agreed: bool, now_ms: int
) -> Decision | Refusal:
    """What this very decision was answered before; refused where it was another, or the application has its tokens."""
    row = await tx.one(DECIDED, *key)
    if row is None:
        return REQUEST_DECIDED.with_reason("unknown, of another session or expired")
    *asked, state = row
    if (changed := await _changed(tx, *asked)) is not None:
        return changed
    made = await _code_made(tx, keys, key[0], value)
    if (made is not None) != agreed:
        return REQUEST_DECIDED.with_reason("decided otherwise")
    if made is not None and not made[1].is_good(now_ms):
        return REQUEST_DECIDED.with_reason("the code was taken, or its time is over")
    return Decision(asked[1], state, made[0] if made is not None else None)


async def _code_made(tx: Transaction, keys: Keys, seller_id: int, value: str) -> tuple[str, store.Code] | None:
    """The code that agreeing made, under whichever key was the active one, and how it stands."""
    for version in reversed(keys.versions):
        code = tokens.code_of(keys, version, seller_id, value)
        found = await store.find_code(tx, seller_id, code)
        if found is not None:
            return code, found
    return None


async def _changed(
    tx: Transaction, application_id: int, redirect_uri: str, scope: str, challenge: str | None
) -> Refusal | None:
    """The refusal where what was asked would not be asked any more: the checks of the page, made again."""
    asked = Asked(
        client_id=str(application_id),
        redirect_uri=redirect_uri,
        response_type="code",
        scope=scope,
        code_challenge=challenge or "",
        code_challenge_method=authorization.S256 if challenge else "",
    )
    try:
        application = authorization.known(asked, await applications.get(tx, application_id))
    except Refusal as refusal:
        return APPLICATION_CHANGED.with_reason(refusal.reason)
    fault = authorization.fault(asked, application)
    return APPLICATION_CHANGED.with_reason(fault.description) if fault is not None else None
