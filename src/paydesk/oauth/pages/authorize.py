"""`GET` and `POST /authorization`: the authorization request of an application and the seller's decision about it."""

from __future__ import annotations

from functools import partial

from paydesk.core.errors import Refusal
from paydesk.oauth import scopes
from paydesk.oauth.clients import applications
from paydesk.oauth.clients.authentication import Application
from paydesk.oauth.consent import authorization, requests
from paydesk.oauth.consent.authorization import AuthorizationRequest
from paydesk.oauth.consent.errors import FORM_OUTDATED, SESSION_ENDED
from paydesk.oauth.consent.requests import Decision
from paydesk.oauth.consent.sessions import Session
from paydesk.oauth.pages import sign_in
from paydesk.oauth.pages.forms import Consent
from paydesk.oauth.pages.seller_request import APPLICATIONS_PATH, SESSION, SellerRequest, safe_return_to
from paydesk.operation import Answer, Call
from paydesk.storage.database import Transaction
from paydesk.web import html

CONSENT = "consent"
MINUTE_MS = 60_000
REFUSED = "The seller refused."


async def show(call: Call) -> Answer:
    """Validate the authorization request, sign the seller in, and show the consent page."""
    authorization_request = authorization.read(call.query_string)
    found = await call.database.read(partial(applications.find, client_id=authorization_request.client_id))
    application = authorization.check_client(authorization_request, found)
    fault = authorization.find_fault(
        authorization_request, application, references_checked=call.settings.card_numbers_refused_in_references
    )
    if fault is not None:
        answer = {"error": fault.error, "error_description": fault.description}
        return _redirect(call, authorization_request.redirect_uri, authorization_request.state, **answer)
    request = SellerRequest.of(call)
    session = await request.session()
    if session is None:
        notice = "ended" if request.session_cookie else ""
        return sign_in.form(request, authorization_request.path(), application=application.name, notice=notice)
    return await _consent_page(request, session, authorization_request, application)


async def _consent_page(
    request: SellerRequest, session: Session, authorization_request: AuthorizationRequest, application: Application
) -> Answer:
    scope = authorization.scope(authorization_request, application)
    assert scope is not None, "find_fault has accepted the scope"
    call = request.call
    request_token = await call.database.write(
        partial(
            requests.create,
            session=session,
            request=authorization_request,
            scope=scope,
            now_ms=call.now_ms,
            expires_ms=call.now_ms + call.settings.consent_minutes * MINUTE_MS,
        )
    )
    cookie = request.session_cookie or ""
    return request.page(
        "consent.html",
        leads_away=True,
        application=application.name,
        host=authorization.host(authorization_request.redirect_uri),
        scopes=scopes.for_display(scope),
        seller=session,
        request=request_token,
        return_to=authorization_request.path(),
        form_token=request.form_token(CONSENT, cookie),
        sign_out_token=request.form_token(sign_in.SIGN_OUT, cookie),
        applications_path=APPLICATIONS_PATH,
    )


async def decide(call: Call) -> Answer:
    """Record the seller's decision, once, and redirect to the application with a code or `access_denied`."""
    request, form = SellerRequest.of(call), call.body
    assert isinstance(form, Consent)
    request.check_origin()
    retry_path = safe_return_to(form.return_to)
    outcome = await call.database.write(partial(_decide, request=request, form=form))
    if isinstance(outcome, Refusal):
        if outcome.kind is SESSION_ENDED:
            application = await sign_in.application_name(call, retry_path)
            return sign_in.form(request, retry_path, application=application, refusal=outcome)
        raise sign_in.with_retry_link(outcome, retry_path)
    answer = {"code": outcome.code} if outcome.code else {"error": "access_denied", "error_description": REFUSED}
    return _redirect(call, outcome.redirect_uri, outcome.state, **answer)


async def _decide(tx: Transaction, request: SellerRequest, form: Consent) -> Decision | Refusal:
    call = request.call
    session = await request.session_within(tx, locked=True)
    if session is None:
        return SESSION_ENDED.with_reason("no valid session")
    if not request.is_form_token_valid(CONSENT, form.form_token, SESSION):
        return FORM_OUTDATED.with_reason("form token is not of this session")
    return await requests.decide(
        tx,
        call.keys,
        session=session,
        request_token=form.request,
        agreed=form.decision == "agree",
        now_ms=call.now_ms,
        code_expires_ms=call.now_ms + call.settings.code_lifetime_seconds * 1000,
    )


def _redirect(call: Call, redirect_uri: str, state: str | None, **parameters: str) -> Answer:
    issuer = call.settings.issuer
    return html.redirect(authorization.response_uri(redirect_uri, state=state, issuer=issuer, **parameters))
