"""The grant type `authorization_code`: exchange the code of a seller's consent, once, for the first tokens."""

from __future__ import annotations

import base64
import hashlib

from paydesk.core import ids
from paydesk.core.errors import Refusal
from paydesk.core.secrets import same
from paydesk.oauth import issuing, store, tokens
from paydesk.oauth.clients.application import Application
from paydesk.oauth.errors import INVALID_GRANT
from paydesk.oauth.schemas import TokenRequest
from paydesk.oauth.scopes import narrow
from paydesk.oauth.store import Code
from paydesk.oauth.tokens import TokenFamily
from paydesk.operation import Answer, Call


def check_parameters(request: TokenRequest) -> None:
    """Refuse a request without the parameters of this grant type, or with those of the other."""
    issuing.check_parameters(request, required=("code", "redirect_uri"), foreign=("refresh_token",))


async def redeem(call: Call, request: TokenRequest, application: Application) -> Answer | Refusal:
    """Exchange the code. A refusal doesn't use up the code; reuse of an exchanged code may revoke its tokens."""
    code = await _find(call, request.code)
    call.logged_seller_id = code.authorization.seller_id
    issuing.check_client(code.authorization, application)
    issuing.check_authorization(code.authorization, application)
    _check_redirect_uri(request, code, application)
    _check_verifier(request, code)
    refusal = await _refuse_used_or_expired(call, request.code, code)
    if refusal is not None:
        return refusal
    scope = narrow(code.authorization.scope, request.scope)
    issuing.check_scope(scope, application)
    family = TokenFamily(
        code.authorization.seller_id, tokens.new_family_id(), application.application_id, not request.wants_test, scope
    )
    if not await store.claim_code(call.tx, family.seller_id, request.code, family.family_id, call.now_ms):
        # A concurrent request has exchanged or expired the code: start over with the new row.
        return await redeem(call, request, application)
    pair = await issuing.begin_family(
        call.tx, call.keys, family, code.authorization.authorization_id, call.now_ms, issuing.lifetimes(call)
    )
    return issuing.answer(call, application, pair)


async def _find(call: Call, presented: str) -> Code:
    seller_id = ids.seller_of(presented) if tokens.is_refresh_token_or_code(presented) else None
    code = await store.find_code(call.tx, seller_id, presented) if seller_id is not None else None
    if code is None:
        raise INVALID_GRANT.with_reason("unknown code")
    return code


def _check_redirect_uri(request: TokenRequest, code: Code, application: Application) -> None:
    if request.redirect_uri != code.redirect_uri:
        raise INVALID_GRANT.with_reason("redirect_uri differs")
    issuing.check_redirect_uri(request.redirect_uri, application)


def _check_verifier(request: TokenRequest, code: Code) -> None:
    """Check PKCE (RFC 7636 section 4.6). A verifier without a challenge is a downgrade (RFC 9700 section 4.8.2)."""
    if code.challenge is None:
        if request.code_verifier:
            raise INVALID_GRANT.with_reason("code_verifier without a challenge")
    elif not request.code_verifier:
        raise INVALID_GRANT.with_reason("code_verifier is missing")
    elif not same(_challenge(request.code_verifier), code.challenge):
        raise INVALID_GRANT.with_reason("code_verifier differs")


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


async def _refuse_used_or_expired(call: Call, presented: str, code: Code) -> Refusal | None:
    """Return the refusal of an expired or exchanged code, to be committed with the expiry or revocation."""
    seller_id = code.authorization.seller_id
    if code.expired_ms is not None or call.now_ms >= code.expires_ms:
        await store.expire_code(call.tx, seller_id, presented, call.now_ms)
        return INVALID_GRANT.with_reason("code expired")
    if code.exchanged_ms is None:
        return None
    # A retry by a browser or network follows within seconds; later reuse is an attack (RFC 6749 section 4.1.2).
    if call.now_ms < code.exchanged_ms + call.settings.code_repeat_seconds * 1000:
        return INVALID_GRANT.with_reason("code exchanged already")
    assert code.family_id is not None, "an exchanged code has a family"
    if await store.revoke_family(call.tx, seller_id, code.family_id, call.now_ms, "code presented again"):
        message = "An authorization code was reused. Every token issued from it was revoked."
        await issuing.alert(call, "authorization_code_replayed", code.authorization, message)
    return INVALID_GRANT.with_reason("code presented again")
