"""The grant type `refresh_token`: a refresh issues the next generation of the family, exactly one successor each.

A used token replayed within the grace period returns the same successor; later reuse revokes the token family.
"""

from __future__ import annotations

from paydesk.core import ids
from paydesk.core.errors import Refusal
from paydesk.oauth import issuing, store, tokens
from paydesk.oauth.clients.application import Application
from paydesk.oauth.errors import INVALID_GRANT, INVALID_REQUEST, INVALID_SCOPE
from paydesk.oauth.schemas import TokenRequest
from paydesk.oauth.scopes import narrow
from paydesk.oauth.store import RefreshToken
from paydesk.operation import Answer, Call


def check_parameters(request: TokenRequest) -> None:
    """Refuse a request without the parameters of this grant type, or with those of the other."""
    issuing.check_parameters(request, required=("refresh_token",), foreign=("code", "code_verifier"))


async def redeem(call: Call, request: TokenRequest, application: Application) -> Answer | Refusal:
    """Issue the successor of the token, or return the existing one. Only a refused replay or expiry is recorded."""
    token = await _find(call, request.refresh_token)
    call.logged_seller_id = token.authorization.seller_id
    issuing.check_client(token.authorization, application)
    _check_mode(request, token)
    issuing.check_authorization(token.authorization, application)
    if request.redirect_uri:
        issuing.check_redirect_uri(request.redirect_uri, application)
    if token.revoked_ms is not None:
        raise INVALID_GRANT.with_reason(f"refresh token revoked: {token.revoked_reason}")
    if token.used:
        return await _retry(call, request, application, token)
    if token.is_expired(call.now_ms):
        return await _refuse_expired(call, request, application, token)
    scope = narrow(token.family.scope, request.scope)
    issuing.check_scope(scope, application)
    if not await store.claim_successor(call.tx, token.family, token.generation):
        # A concurrent request has made the successor or ended the family: start over with the new row.
        return await redeem(call, request, application)
    pair = issuing.issue(
        call.tx, call.keys, token.family, token.generation + 1, scope, call.now_ms, issuing.lifetimes(call)
    )
    return issuing.answer(call, application, pair)


async def _find(call: Call, presented: str) -> RefreshToken:
    seller_id = ids.seller_of(presented) if tokens.is_refresh_token_or_code(presented) else None
    token = await store.find_refresh_token(call.tx, seller_id, presented) if seller_id is not None else None
    if token is None:
        raise INVALID_GRANT.with_reason("unknown refresh token")
    return token


def _check_mode(request: TokenRequest, token: RefreshToken) -> None:
    """Refuse a `test_token` that differs from the family's mode: a malformed request, so it precedes other checks."""
    if request.wants_test is not None and request.wants_test == token.family.live:
        raise INVALID_REQUEST.with_reason("test_token differs from the family's mode")


async def _retry(call: Call, request: TokenRequest, application: Application, token: RefreshToken) -> Answer | Refusal:
    """Return the successor of a used token, within the grace period for retries; refuse a replay after it."""
    generations = await store.find_generations(call.tx, token.family, token.generation + 1)
    successor, second_successor = (generations.get(token.generation + step) for step in (1, 2))
    if token.newest_generation > token.generation + 1:
        refreshed_ms = second_successor.created_ms if second_successor else 0
        if call.now_ms >= refreshed_ms + call.settings.refresh_repeat_seconds * 1000:
            return await _refuse_replay(call, application, token)
    assert successor is not None, "a used token has a successor"
    if narrow(token.family.scope, request.scope) != successor.scope:
        raise INVALID_SCOPE.with_reason("retried with another scope")
    issuing.check_scope(successor.scope, application)
    return issuing.answer(call, application, tokens.derive(call.keys, token.family, successor))


async def _refuse_replay(call: Call, application: Application, token: RefreshToken) -> Refusal:
    """Refuse a replay: the legitimate client can't be distinguished from an attacker (RFC 9700 section 4.14.2)."""
    if application.on_replay == "revoke":
        await _revoke(call, token)
    return INVALID_GRANT.with_reason("refresh token replayed")


async def _revoke(call: Call, token: RefreshToken) -> None:
    """Revoke the token's family and alert operators, once for concurrent replays."""
    family = token.family
    if await store.revoke_family(call.tx, family.seller_id, family.family_id, call.now_ms, "refresh token replayed"):
        message = "A used refresh token was reused. Its token family was revoked."
        await issuing.alert(call, "refresh_token_replayed", token.authorization, message)


async def _refuse_expired(
    call: Call, request: TokenRequest, application: Application, token: RefreshToken
) -> Answer | Refusal:
    """Record the expiry, so that it outlasts a clock set back; if another node has just refreshed, start over."""
    recorded = token.expired_ms is not None or await store.expire_family(
        call.tx, token.family, token.generation, call.now_ms
    )
    return INVALID_GRANT.with_reason("refresh token expired") if recorded else await redeem(call, request, application)
