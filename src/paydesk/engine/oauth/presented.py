"""Revocation (RFC 7009) and introspection (RFC 7662) of a token by its own application.

An unknown or malformed token and one of another application are treated alike: not revoked, and not active. The format
of a token shows its type, so `token_type_hint` is ignored.
"""

from __future__ import annotations

from paydesk.core.errors import Refusal
from paydesk.core.secrets import digest
from paydesk.engine.oauth import bearer, grants, store, tokens
from paydesk.engine.oauth.bearer import AccessToken
from paydesk.engine.oauth.clients.authentication import Application
from paydesk.engine.oauth.schemas import BEARER, Introspection
from paydesk.engine.oauth.scopes import shared
from paydesk.engine.oauth.store import RefreshToken
from paydesk.platform.storage.database import Transaction

REASON = "by the application"


async def find(tx: Transaction, text: str, application: Application) -> AccessToken | RefreshToken | None:
    """Return the application's access or refresh token, or None."""
    token: AccessToken | RefreshToken | None
    seller_id = tokens.seller_of_access_token(text)
    if seller_id is not None:
        token = await bearer.find(tx, seller_id, digest(text))
    else:
        token = await store.find_refresh_token(tx, text)
    if token is None or token.application_id != application.application_id:
        return None
    return token


async def revoke(tx: Transaction, token: AccessToken | RefreshToken, now_ms: int) -> None:
    """Revoke an access token alone, or with a refresh token, also a used one, its whole family."""
    if isinstance(token, AccessToken):
        await bearer.revoke(tx, token, now_ms)
    else:
        await store.revoke_family(tx, token.seller_id, token.family_id, now_ms, REASON)


async def introspect(
    tx: Transaction, token: AccessToken | RefreshToken, application: Application, now_ms: int, issuer: str
) -> Introspection:
    """Describe a valid token, a refresh token without `token_type`, as it is no bearer token.

    Any other token is only described as not active.
    """
    if isinstance(token, AccessToken):
        scope, token_type = token.effective_scope, BEARER
        if token.expires_now(now_ms):
            await bearer.expire(tx, token, now_ms)
        is_active = token.refusal(now_ms) is None
    else:
        scope, token_type = shared(token.scope, application.scopes), None
        is_active = await _can_be_refreshed(tx, token, application, now_ms)
    if not is_active:
        return Introspection(active=False)
    return Introspection(
        active=True,
        scope=scope or None,  # left out if there are none (RFC 7662 section 2.2)
        client_id=str(token.application_id),
        token_type=token_type,
        exp=token.expires_ms // 1000,
        iat=token.created_ms // 1000,
        sub=str(token.seller_id),
        iss=issuer,
        user_id=token.seller_id,
        live_mode=bool(token.live),
    )


async def _can_be_refreshed(tx: Transaction, token: RefreshToken, application: Application, now_ms: int) -> bool:
    """Return whether a refresh with the token would issue new tokens.

    A used token would not: it only returns its existing successor for a grace period, in case the answer was lost.
    """
    try:
        grants.check_authorization(token, application)
    except Refusal:
        return False
    if token.revoked_ms is not None or token.used:
        return False
    if token.is_expired(now_ms):
        await store.expire_family(tx, token.family, token.generation, now_ms)
        return False
    return True
