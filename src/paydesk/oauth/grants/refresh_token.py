"""The grant `refresh_token`: every refresh makes the next generation of its family, one successor and no more.

A used token replayed within the grace period returns the same successor; later reuse revokes the token family.
"""

from __future__ import annotations

from paydesk.core import ids
from paydesk.core.errors import Refusal
from paydesk.oauth import issuing, store, tokens
from paydesk.oauth.clients.application import Application
from paydesk.oauth.errors import INVALID_GRANT, INVALID_REQUEST, INVALID_SCOPE
from paydesk.oauth.grants import checks
from paydesk.oauth.schemas import TokenRequest
from paydesk.oauth.scopes import narrow
from paydesk.oauth.store import RefreshToken
from paydesk.operation import Answer, Call


def check_parameters(request: TokenRequest) -> None:
    """Refuse a request that is not one of this grant."""
    checks.parameters_fit(request, required=("refresh_token",), foreign=("code", "code_verifier"))


async def redeem(call: Call, request: TokenRequest, application: Application) -> Answer | Refusal:
    """Make the successor, or answer the one that was made. What is refused changes nothing, but a replay may."""
    token = await _find(call, request.refresh_token)
    call.logged_seller_id = token.grant.seller_id
    checks.belongs_to(token.grant, application)
    _kind_stays(request, token)
    checks.stands(token.grant, application)
    if request.redirect_uri:
        checks.redirect_uri_registered(request.redirect_uri, application)
    if token.revoked_ms is not None:
        raise INVALID_GRANT.with_reason(f"refresh token revoked: {token.revoked_reason}")
    if token.used:
        return await _repeat(call, request, application, token)
    if token.is_expired(call.now_ms):
        return await _refuse_expired(call, request, application, token)
    scope = narrow(token.family.scope, request.scope)
    checks.something_remains(scope, application)
    if not await store.claim_successor(call.tx, token.family, token.generation):
        # Somebody was quicker: there is a successor to answer now, or the family has ended.
        return await redeem(call, request, application)
    pair = issuing.issue(
        call.tx, call.keys, token.family, token.generation + 1, scope, call.now_ms, checks.lifetimes(call)
    )
    return checks.answer(call, application, pair)


async def _find(call: Call, presented: str) -> RefreshToken:
    seller_id = ids.seller_of(presented) if tokens.is_refresh_token_or_code(presented) else None
    token = await store.find_refresh_token(call.tx, seller_id, presented) if seller_id is not None else None
    if token is None:
        raise INVALID_GRANT.with_reason("unknown refresh token")
    return token


def _kind_stays(request: TokenRequest, token: RefreshToken) -> None:
    """A malformed request in truth, only it takes the family to see it: so it goes before everything that follows."""
    if request.wants_test is not None and request.wants_test == token.family.live:
        raise INVALID_REQUEST.with_reason("test_token differs from the family's kind")


async def _repeat(call: Call, request: TokenRequest, application: Application, token: RefreshToken) -> Answer | Refusal:
    """The tokens that the used token has brought forth, as long as this can be an honest repeat."""
    generations = await store.find_generations(call.tx, token.family, token.generation + 1)
    successor, successors_own = (generations.get(token.generation + step) for step in (1, 2))
    if token.newest_generation > token.generation + 1:
        refreshed_ms = successors_own.created_ms if successors_own else 0
        if call.now_ms >= refreshed_ms + call.settings.refresh_repeat_seconds * 1000:
            return await _refuse_replay(call, application, token)
    assert successor is not None, "a used token has a successor"
    if narrow(token.family.scope, request.scope) != successor.scope:
        raise INVALID_SCOPE.with_reason("repeated with another scope")
    checks.something_remains(successor.scope, application)
    return checks.answer(call, application, tokens.derive(call.keys, token.family, successor))


async def _refuse_replay(call: Call, application: Application, token: RefreshToken) -> Refusal:
    """Two hold the token, and nobody knows which of them is honest (RFC 9700 section 4.14.2)."""
    if application.on_replay == "revoke":
        await _revoke(call, token)
    return INVALID_GRANT.with_reason("refresh token replayed")


async def _revoke(call: Call, token: RefreshToken) -> None:
    """Revoke the token's family. Of several replays at once one does, and operators learn of it by that one."""
    family = token.family
    if await store.revoke_family(call.tx, family.seller_id, family.family_id, call.now_ms, "refresh token replayed"):
        message = "A used refresh token was presented again: its token family was revoked."
        await checks.alert(call, "refresh_token_replayed", token.grant, message)


async def _refuse_expired(
    call: Call, request: TokenRequest, application: Application, token: RefreshToken
) -> Answer | Refusal:
    """Write it down, so that no clock brings the token back; unless another node has just refreshed it."""
    written = token.expired_ms is not None or await store.expire_family(
        call.tx, token.family, token.generation, call.now_ms
    )
    return INVALID_GRANT.with_reason("refresh token expired") if written else await redeem(call, request, application)
