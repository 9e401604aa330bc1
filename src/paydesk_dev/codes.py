"""Authorization codes without a browser, for development."""

from __future__ import annotations

from paydesk.core.clock import rfc3339
from paydesk.core.errors import PROPERTY_VALUE, REQUIRED_PROPERTIES, SELLER_NOT_FOUND
from paydesk.core.response import Closed, Time
from paydesk.engine.oauth import authorizations
from paydesk.engine.oauth.clients import applications
from paydesk.engine.sellers import store as sellers
from paydesk.operators import audit
from paydesk.operators.errors import APPLICATION_NOT_FOUND
from paydesk.operators.schemas import CodeRequest
from paydesk.platform.operation import Answer, Call


class _Code(Closed, frozen=True, kw_only=True):
    client_id: str
    user_id: int
    redirect_uri: str
    scope: str
    test_token: bool | None = None
    expires_date: Time


class NewCode(_Code, frozen=True):
    """An authorization code, and what it stands for."""

    code: str


async def create(call: Call) -> Answer:
    """Issue the code that the seller's consent would have issued."""
    body: CodeRequest = call.body
    if (body.code_challenge is None) != (body.code_challenge_method is None):
        sent, missing = "code_challenge", "code_challenge_method"
        if body.code_challenge is None:
            sent, missing = missing, sent
        raise REQUIRED_PROPERTIES.with_reason("incomplete challenge", f"'$.{missing}' - must be sent with {sent}")
    application = await applications.lock_shared(call.tx, body.client_id)
    if application is None:
        raise APPLICATION_NOT_FOUND.with_reason("unknown application")
    if await sellers.lock_shared(call.tx, body.user_id) is None:
        raise SELLER_NOT_FOUND.with_reason("unknown seller")
    redirect_uri = body.redirect_uri or application.redirect_uris[0]
    if redirect_uri not in application.redirect_uris:
        raise PROPERTY_VALUE.with_reason(
            "redirect_uri is not registered", "'$.redirect_uri' - must be one of the application's redirect URIs"
        )
    if application.pkce_required and body.code_challenge is None:
        raise REQUIRED_PROPERTIES.with_reason(
            "challenge required", "'$.code_challenge' - the application requires PKCE"
        )
    scope = body.scope or application.scopes
    if not set(scope.split()) <= set(application.scopes.split()):
        raise PROPERTY_VALUE.with_reason("scope too wide", "'$.scope' - must be within the application's scopes")
    expires_ms = call.now_ms + call.settings.code_lifetime_seconds * 1000
    code = await authorizations.mint_code(
        call.tx,
        application_id=application.application_id,
        seller_id=body.user_id,
        redirect_uri=redirect_uri,
        scope=scope,
        challenge=body.code_challenge,
        now_ms=call.now_ms,
        expires_ms=expires_ms,
        test_token=body.test_token,
    )
    client_id, expires = str(application.application_id), rfc3339(expires_ms)
    document = _Code.of(body, client_id=client_id, redirect_uri=redirect_uri, scope=scope, expires_date=expires)
    await audit.record(call, call.tx, "codes.create", str(body.user_id), after=document)
    return Answer(201, NewCode.of(document, code=code))
