"""Revocation (RFC 7009) and introspection (RFC 7662) of a token by its own application.

An unknown or malformed token and one of another application are treated alike: not revoked, and not active. The format
of a token shows its type, so `token_type_hint` is ignored.
"""

from __future__ import annotations

from msgspec.structs import replace

from paydesk.core import ids
from paydesk.core.errors import Refusal
from paydesk.core.secrets import digest
from paydesk.oauth import bearer, issuing, store, tokens
from paydesk.oauth.bearer import AccessToken
from paydesk.oauth.clients.application import Application
from paydesk.oauth.schemas import BEARER, Introspection
from paydesk.oauth.scopes import shared
from paydesk.oauth.store import RefreshToken
from paydesk.operation import Answer, Call

REASON = "by the application"


async def revoke(call: Call, token: str, application: Application) -> Answer:
    """Revoke an access token alone, or with a refresh token, also a used one, its whole family."""
    access_token = await _access_token(call, token, application)
    if access_token is not None:
        await bearer.revoke(call.tx, access_token, call.now_ms)
    refresh_token = await _refresh_token(call, token, application)
    if refresh_token is not None:
        family = refresh_token.family
        await store.revoke_family(call.tx, family.seller_id, family.family_id, call.now_ms, REASON)
    return Answer(200, {})


async def introspect(call: Call, token: str, application: Application) -> Answer:
    """Describe a valid token; for any other return only that it is not active."""
    access_token = await _access_token(call, token, application)
    if access_token is not None and await _is_valid(call, access_token):
        return Answer(200, _of_access_token(call, access_token))
    refresh_token = await _refresh_token(call, token, application)
    if refresh_token is not None and await _can_be_refreshed(call, refresh_token, application):
        return Answer(200, _of_refresh_token(call, refresh_token, application))
    return Answer(200, Introspection(active=False))


async def _access_token(call: Call, token: str, application: Application) -> AccessToken | None:
    """Return the application's access token, or None."""
    seller_id = ids.seller_of(token) if tokens.is_access_token(token) else None
    found = await bearer.find(call.tx, seller_id, digest(token)) if seller_id is not None else None
    if found is None or found.application_id != application.application_id:
        return None
    call.logged_seller_id = found.seller_id
    return found


async def _refresh_token(call: Call, token: str, application: Application) -> RefreshToken | None:
    """Return the application's refresh token, or None; an authorization code has the same format and is not found."""
    seller_id = ids.seller_of(token) if tokens.is_refresh_token_or_code(token) else None
    found = await store.find_refresh_token(call.tx, seller_id, token) if seller_id is not None else None
    if found is None or found.authorization.application_id != application.application_id:
        return None
    call.logged_seller_id = found.authorization.seller_id
    return found


async def _is_valid(call: Call, token: AccessToken) -> bool:
    refusal = token.refusal(call.now_ms)
    if token.expires_now(call.now_ms):
        await bearer.expire(call.tx, token, call.now_ms)
    return refusal is None


async def _can_be_refreshed(call: Call, token: RefreshToken, application: Application) -> bool:
    """Return whether a refresh with the token would issue new tokens.

    A used token would not: it only returns its existing successor for a grace period, in case the answer was lost.
    """
    try:
        issuing.check_authorization(token.authorization, application)
    except Refusal:
        return False
    if token.revoked_ms is not None or token.used:
        return False
    if token.is_expired(call.now_ms):
        await store.expire_family(call.tx, token.family, token.generation, call.now_ms)
        return False
    return True


def _of_access_token(call: Call, token: AccessToken) -> Introspection:
    answer = _describe(call, token, token.application_id, token.seller_id, live=bool(token.live))
    return replace(answer, scope=token.effective_scope or None, token_type=BEARER)


def _of_refresh_token(call: Call, token: RefreshToken, application: Application) -> Introspection:
    """Describe a refresh token, without `token_type`: it is no bearer token."""
    family = token.family
    answer = _describe(call, token, family.application_id, family.seller_id, live=family.live)
    return replace(answer, scope=shared(family.scope, application.scopes) or None)


def _describe(
    call: Call, token: AccessToken | RefreshToken, application_id: int, seller_id: int, *, live: bool
) -> Introspection:
    """Return the members that both kinds of tokens have."""
    return Introspection(
        active=True,
        client_id=str(application_id),
        exp=token.expires_ms // 1000,
        iat=token.created_ms // 1000,
        sub=str(seller_id),
        iss=call.settings.issuer,
        user_id=seller_id,
        live_mode=live,
    )
