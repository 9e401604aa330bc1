"""The grant `authorization_code`: a code that a seller's consent made is exchanged, once, for the first tokens."""

from __future__ import annotations

import base64
import hashlib

from paydesk.core import ids
from paydesk.core.errors import Refusal
from paydesk.core.secrets import same
from paydesk.oauth import issuing, store, tokens
from paydesk.oauth.clients.application import Application
from paydesk.oauth.errors import INVALID_GRANT
from paydesk.oauth.grants import checks
from paydesk.oauth.schemas import TokenRequest
from paydesk.oauth.scopes import narrow
from paydesk.oauth.store import Code
from paydesk.oauth.tokens import TokenFamily
from paydesk.operation import Answer, Call


def check_parameters(request: TokenRequest) -> None:
    """Refuse a request that is not one of this grant."""
    checks.parameters_fit(request, required=("code", "redirect_uri"), foreign=("refresh_token",))


async def redeem(call: Call, request: TokenRequest, application: Application) -> Answer | Refusal:
    """Exchange the code. What is refused uses nothing up, but a code that comes again may end its tokens."""
    code = await _find(call, request.code)
    call.logged_seller_id = code.grant.seller_id
    checks.belongs_to(code.grant, application)
    checks.stands(code.grant, application)
    _redirect_uri_agrees(request, code, application)
    _verifier_agrees(request, code)
    refusal = await _refuse_spent(call, request.code, code)
    if refusal is not None:
        return refusal
    scope = narrow(code.grant.scope, request.scope)
    checks.something_remains(scope, application)
    family = TokenFamily(
        code.grant.seller_id, tokens.new_family_id(), application.application_id, not request.wants_test, scope
    )
    if not await store.claim_code(call.tx, family.seller_id, request.code, family.family_id, call.now_ms):
        # Somebody was quicker: what became of the code meanwhile decides.
        return await redeem(call, request, application)
    pair = await issuing.begin_family(
        call.tx, call.keys, family, code.grant.authorization_id, call.now_ms, checks.lifetimes(call)
    )
    return checks.answer(call, application, pair)


async def _find(call: Call, presented: str) -> Code:
    seller_id = ids.seller_of(presented) if tokens.is_refresh_token_or_code(presented) else None
    code = await store.find_code(call.tx, seller_id, presented) if seller_id is not None else None
    if code is None:
        raise INVALID_GRANT.with_reason("unknown code")
    return code


def _redirect_uri_agrees(request: TokenRequest, code: Code, application: Application) -> None:
    if request.redirect_uri != code.redirect_uri:
        raise INVALID_GRANT.with_reason("redirect_uri differs")
    checks.redirect_uri_registered(request.redirect_uri, application)


def _verifier_agrees(request: TokenRequest, code: Code) -> None:
    """RFC 7636 section 4.6; a verifier without a challenge is a downgrade (RFC 9700 section 4.8.2)."""
    if code.challenge is None:
        if request.code_verifier:
            raise INVALID_GRANT.with_reason("code_verifier without a challenge")
    elif not request.code_verifier:
        raise INVALID_GRANT.with_reason("code_verifier is missing")
    elif not same(_challenge(request.code_verifier), code.challenge):
        raise INVALID_GRANT.with_reason("code_verifier differs")


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


async def _refuse_spent(call: Call, presented: str, code: Code) -> Refusal | None:
    """The refusal of a code that is expired or was exchanged; what it brings about is kept, so it is returned."""
    seller_id = code.grant.seller_id
    if code.expired_ms is not None or call.now_ms >= code.expires_ms:
        await store.expire_code(call.tx, seller_id, presented, call.now_ms)
        return INVALID_GRANT.with_reason("code expired")
    if code.exchanged_ms is None:
        return None
    # A browser or a network repeats at once; who comes later has got hold of somebody else's code (RFC 6749 §4.1.2).
    if call.now_ms < code.exchanged_ms + call.settings.code_repeat_seconds * 1000:
        return INVALID_GRANT.with_reason("code exchanged already")
    assert code.family_id is not None, "an exchanged code names its family"
    if await store.revoke_family(call.tx, seller_id, code.family_id, call.now_ms, "code presented again"):
        message = "An authorization code was presented again: every token that came from it was revoked."
        await checks.alert(call, "authorization_code_replayed", code.grant, message)
    return INVALID_GRANT.with_reason("code presented again")
