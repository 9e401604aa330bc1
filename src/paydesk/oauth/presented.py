"""A token that its own application presents: to end it (RFC 7009), or to hear what it is good for (RFC 7662).

What is unknown, no token at all or of another application looks the same: nothing is done, and it is not active. A hint
about the kind is not needed, for a token's shape says which it is.
"""

from __future__ import annotations

from typing import Any

from paydesk.core import ids
from paydesk.core.errors import Refusal
from paydesk.core.secrets import digest
from paydesk.oauth import bearer, store, tokens
from paydesk.oauth.bearer import AccessToken
from paydesk.oauth.clients.application import Application
from paydesk.oauth.grants import checks
from paydesk.oauth.scopes import shared
from paydesk.oauth.store import RefreshToken
from paydesk.operation import Answer, Call

REASON = "by the application"


async def revoke(call: Call, token: str, application: Application) -> Answer:
    """End an access token alone, or with a refresh token, a used one too, everything of its family."""
    access_token = await _access_token(call, token, application)
    if access_token is not None:
        await bearer.revoke(call.tx, access_token, call.now_ms)
    refresh_token = await _refresh_token(call, token, application)
    if refresh_token is not None:
        family = refresh_token.family
        await store.revoke_family(call.tx, family.seller_id, family.family_id, call.now_ms, REASON)
    return Answer(200, {})


async def introspect(call: Call, token: str, application: Application) -> Answer:
    """Say of a good token what it is good for, and of any other only that it is not."""
    access_token = await _access_token(call, token, application)
    if access_token is not None and await _is_good(call, access_token):
        return Answer(200, _of_access_token(call, access_token))
    refresh_token = await _refresh_token(call, token, application)
    if refresh_token is not None and await _has_a_successor_to_make(call, refresh_token, application):
        return Answer(200, _of_refresh_token(call, refresh_token, application))
    return Answer(200, {"active": False})


async def _access_token(call: Call, token: str, application: Application) -> AccessToken | None:
    """The application's access token, or None."""
    seller_id = ids.seller_of(token) if tokens.is_access_token(token) else None
    found = await bearer.find(call.tx, seller_id, digest(token)) if seller_id is not None else None
    if found is None or found.application_id != application.application_id:
        return None
    call.logged_seller_id = found.seller_id
    return found


async def _refresh_token(call: Call, token: str, application: Application) -> RefreshToken | None:
    """The application's refresh token, or None. A code has the same shape, and is none."""
    seller_id = ids.seller_of(token) if tokens.is_refresh_token_or_code(token) else None
    found = await store.find_refresh_token(call.tx, seller_id, token) if seller_id is not None else None
    if found is None or found.grant.application_id != application.application_id:
        return None
    call.logged_seller_id = found.grant.seller_id
    return found


async def _is_good(call: Call, token: AccessToken) -> bool:
    refusal = token.refusal(call.now_ms)
    if token.runs_out(call.now_ms):
        await bearer.expire(call.tx, token, call.now_ms)
    return refusal is None


async def _has_a_successor_to_make(call: Call, token: RefreshToken, application: Application) -> bool:
    """Whether a refresh with it would make new tokens.

    A used one has its successor. Within its time it still answers the tokens that were made of it, for answers that got
    lost, but it is not the one to keep, and whoever asks is not told that it is as good.
    """
    try:
        checks.stands(token.grant, application)
    except Refusal:
        return False
    if token.revoked_ms is not None or token.used:
        return False
    if token.is_expired(call.now_ms):
        await store.expire_family(call.tx, token.family, token.generation, call.now_ms)
        return False
    return True


def _of_access_token(call: Call, token: AccessToken) -> dict[str, Any]:
    about = {"client_id": str(token.application_id), "token_type": "bearer"}
    whose = _whose(call, token.seller_id, live=bool(token.live))
    return {"active": True, **_scope(token.effective_scope), **about, **_times(token), **whose}


def _of_refresh_token(call: Call, token: RefreshToken, application: Application) -> dict[str, Any]:
    """It has no `token_type`: nobody may take it for a bearer."""
    family = token.family
    about = {**_scope(shared(family.scope, application.scopes)), "client_id": str(family.application_id)}
    return {"active": True, **about, **_times(token), **_whose(call, family.seller_id, live=family.live)}


def _scope(scope: str) -> dict[str, str]:
    """Return the member `scope`, which is left out where there is none (RFC 7662 section 2.2)."""
    return {"scope": scope} if scope else {}


def _times(token: AccessToken | RefreshToken) -> dict[str, int]:
    return {"exp": token.expires_ms // 1000, "iat": token.created_ms // 1000}


def _whose(call: Call, seller_id: int, *, live: bool) -> dict[str, Any]:
    issuer = call.settings.issuer
    return {"sub": str(seller_id), "iss": issuer, "user_id": seller_id, "live_mode": live}
