"""`GET` and `POST /authorization`: the authorization request of an application and the seller's decision about it."""

from __future__ import annotations

from functools import partial

from paydesk.core.errors import Refusal
from paydesk.engine.oauth import scopes
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.consent import authorization, requests
from paydesk.engine.oauth.consent.requests import Decision
from paydesk.engine.oauth.pages import sign_in
from paydesk.engine.oauth.pages.forms import Consent
from paydesk.engine.oauth.pages.seller_request import APPLICATIONS_PATH, SellerRequest, safe_return_to
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction
from paydesk.platform.web import html

CONSENT = "consent"
MINUTE_MS = 60_000
REFUSED = "The seller refused."


async def show(call: Call) -> Answer:
    """Ask a seller to authorize an application: validate the request, sign the seller in, show the consent page."""
    settings, asked = call.settings, authorization.read(call.query_string)
    registered = await call.database.read(partial(applications.find, client_id=asked.client_id))
    application = authorization.check_client(asked, registered)
    references_checked = settings.card_numbers_refused_in_references
    fault = authorization.find_fault(asked, application, references_checked=references_checked)
    if fault is not None:
        answer = {"error": fault.error, "error_description": fault.description}
        return _redirect(asked.redirect_uri, asked.state, settings.issuer, **answer)
    request = SellerRequest(call)
    session = await request.session(call.database)
    call.logged_seller_id = request.seller_id
    if session is None:
        notice = "ended" if request.session_cookie else ""
        return sign_in.form(request, asked.path(), application=application.name, notice=notice)
    scope = authorization.scope(asked, application)
    assert scope is not None, "find_fault has accepted the scope"
    request_token = await call.database.write(
        partial(
            requests.create,
            session=session,
            request=asked,
            scope=scope,
            now_ms=call.now_ms,
            expires_ms=call.now_ms + settings.consent_minutes * MINUTE_MS,
        )
    )
    return request.page(
        "consent.html",
        leads_away=True,
        application=application.name,
        host=authorization.host(asked.redirect_uri),
        scopes=scopes.for_display(scope),
        test_tokens=application.test_tokens,
        seller=session,
        request=request_token,
        return_to=asked.path(),
        form_token=request.form_token(CONSENT, request.session_cookie),
        sign_out_token=request.form_token(sign_in.SIGN_OUT, request.session_cookie),
        applications_path=APPLICATIONS_PATH,
    )


async def decide(call: Call) -> Answer:
    """Decide about an authorization request: once. Redirects to the application with a code or `access_denied`."""
    request, form, settings = SellerRequest(call), call.body, call.settings
    assert isinstance(form, Consent)
    request.check_origin()

    async def work(tx: Transaction) -> Decision | Refusal:
        session = await request.session_of_form(tx, CONSENT, form.form_token)
        if isinstance(session, Refusal):
            return session
        return await requests.decide(
            tx,
            call.keys,
            session=session,
            request_token=form.request,
            agreed=form.decision == "agree",
            now_ms=call.now_ms,
            code_expires_ms=call.now_ms + settings.code_lifetime_seconds * 1000,
        )

    outcome = await call.database.write(work)
    call.logged_seller_id = request.seller_id
    if isinstance(outcome, Refusal):
        return await sign_in.refused(request, call.database, outcome, safe_return_to(form.return_to))
    if outcome.code:
        call.database.signals.hint("grants")
    answer = {"code": outcome.code} if outcome.code else {"error": "access_denied", "error_description": REFUSED}
    return _redirect(outcome.redirect_uri, outcome.state, settings.issuer, **answer)


def _redirect(redirect_uri: str, state: str | None, issuer: str, **parameters: str) -> Answer:
    return html.redirect(authorization.response_uri(redirect_uri, state=state, issuer=issuer, **parameters))
