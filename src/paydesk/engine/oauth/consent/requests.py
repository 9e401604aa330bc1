"""Consent requests: the authorization request on a seller's consent page, decided once.

The code is derived from the random token in the page's form, of which only the digest is stored. So a second click on
the same button gets the same code.
"""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core.errors import Refusal
from paydesk.core.keys import Keys
from paydesk.core.secrets import digest, new_hex
from paydesk.engine.oauth import authorizations, store, tokens
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.consent import authorization
from paydesk.engine.oauth.consent.authorization import AuthorizationRequest
from paydesk.engine.oauth.errors import APPLICATION_CHANGED, REQUEST_DECIDED
from paydesk.engine.sellers.sessions import Session
from paydesk.platform.storage.database import Transaction

OPEN_MAX = 20
"""Consent pages that are open at a time in one session of a browser."""
TRIMMED_MAX = 100


@dataclass(frozen=True, slots=True)
class Decision:
    """The redirect to the application: with a code, or None if the seller refused."""

    redirect_uri: str
    state: str | None
    code: str | None


# Inserts a consent request.
INSERT = """INSERT INTO consent_requests (seller_id, digest, session_digest, application_id, redirect_uri, scope,
        challenge, state, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"""

# Deletes the open requests of a session but for the newest.
TRIM = f"""DELETE FROM consent_requests WHERE seller_id = $1 AND digest IN (WITH old AS MATERIALIZED (
    SELECT digest FROM consent_requests
     WHERE seller_id = $1 AND session_digest = $2 AND expires_ms > $3 AND decided_ms IS NULL
     ORDER BY created_ms DESC, digest LIMIT {TRIMMED_MAX} OFFSET {OPEN_MAX - 1}) SELECT * FROM old)"""

# open -> decided: of several answers to one page only the first succeeds, and only in the session of the page.
DECIDE = """UPDATE consent_requests SET decided_ms = $4
    WHERE seller_id = $1 AND digest = $2 AND session_digest = $3 AND decided_ms IS NULL AND expires_ms > $4
    RETURNING application_id, redirect_uri, scope, challenge, state"""

# Selects a request that was decided before it expired.
DECIDED = """SELECT application_id, redirect_uri, scope, challenge, state FROM consent_requests
    WHERE seller_id = $1 AND digest = $2 AND session_digest = $3 AND decided_ms < expires_ms"""

# open -> decided, as expired: a request refused as expired stays refused, also if the clock is set back.
EXPIRE = """UPDATE consent_requests SET decided_ms = $4
    WHERE seller_id = $1 AND digest = $2 AND session_digest = $3 AND decided_ms IS NULL"""


async def create(
    tx: Transaction, *, session: Session, request: AuthorizationRequest, scope: str, now_ms: int, expires_ms: int
) -> str:
    """Store the request of a consent page; return the token, 256 random bits, for the page's form.

    The oldest open requests of the session beyond `OPEN_MAX` are deleted: their pages are answered as expired ones.
    """
    request_token = new_hex(256)
    key = (session.seller_id, digest(request_token), session.digest)
    asked = (int(request.client_id), request.redirect_uri, scope, request.code_challenge or None, request.state or None)
    await tx.run(TRIM, session.seller_id, session.digest, now_ms)
    await tx.run(INSERT, *key, *asked, now_ms, expires_ms)
    return request_token


async def decide(
    tx: Transaction,
    keys: Keys,
    *,
    session: Session,
    request_token: str,
    agreed: bool,
    now_ms: int,
    code_expires_ms: int,
) -> Decision | Refusal:
    """Decide a request, once. Agreeing creates an authorization with its code, unless the application has changed.

    A refusal is returned, to be committed: it decides the request. The same decision again gets the same result, until
    the code is redeemed or expires.
    """
    seller_id = session.seller_id
    key = (seller_id, digest(request_token), session.digest)
    row, is_first = await tx.one(DECIDE, *key, now_ms), True
    if row is None:
        if await tx.run(EXPIRE, *key, now_ms):
            return REQUEST_DECIDED.with_reason("expired")
        row, is_first = await tx.one(DECIDED, *key), False
    if row is None:
        return REQUEST_DECIDED.with_reason("unknown, of another session or expired")
    application_id, redirect_uri, scope, challenge, state = row
    refusal = await _check_again(tx, application_id, redirect_uri, scope, challenge)
    if refusal is not None:
        return refusal
    if not is_first:
        before = await _decided_before(tx, keys, seller_id, request_token, agreed=agreed, now_ms=now_ms)
        return before if isinstance(before, Refusal) else Decision(redirect_uri, state, before)
    if not agreed:
        return Decision(redirect_uri, state, None)
    code = await authorizations.mint_code(
        tx,
        application_id=application_id,
        seller_id=seller_id,
        redirect_uri=redirect_uri,
        scope=scope,
        challenge=challenge,
        now_ms=now_ms,
        expires_ms=code_expires_ms,
        code=tokens.code_of(keys, keys.active, seller_id, request_token),
    )
    return Decision(redirect_uri, state, code)


async def _decided_before(
    tx: Transaction, keys: Keys, seller_id: int, request_token: str, *, agreed: bool, now_ms: int
) -> str | Refusal | None:
    """Return the code of the same decision before, if it created one; refuse a different decision and an ended code."""
    code = row = None
    # Whichever server key was active then.
    for version in reversed(keys.versions):
        if row is None:
            code = tokens.code_of(keys, version, seller_id, request_token)
            row = await store.find_code(tx, code)
    if (row is not None) != agreed:
        return REQUEST_DECIDED.with_reason("decided otherwise")
    if row is not None and not row.is_valid(now_ms):
        return REQUEST_DECIDED.with_reason("the code was redeemed or has expired")
    return code if agreed else None


async def _check_again(
    tx: Transaction, application_id: int, redirect_uri: str, scope: str, challenge: str | None
) -> Refusal | None:
    """Return APPLICATION_CHANGED if the authorization request would no longer pass the checks of the page."""
    request = AuthorizationRequest(
        client_id=str(application_id),
        redirect_uri=redirect_uri,
        response_type="code",
        scope=scope,
        code_challenge=challenge or "",
        code_challenge_method=authorization.S256 if challenge else "",
    )
    try:
        application = authorization.check_client(request, await applications.lock_shared(tx, application_id))
    except Refusal as refusal:
        return APPLICATION_CHANGED.with_reason(refusal.reason)
    fault = authorization.find_fault(request, application)
    return APPLICATION_CHANGED.with_reason(fault.description) if fault is not None else None
