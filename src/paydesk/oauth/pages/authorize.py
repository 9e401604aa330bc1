"""`GET` and `POST /authorization`: an application asks, the seller decides, the browser goes back to it."""

from __future__ import annotations

from functools import partial

from paydesk.core.errors import Refusal
from paydesk.oauth.clients import applications
from paydesk.oauth.clients.application import Application
from paydesk.oauth.consent import authorization, requests
from paydesk.oauth.consent.authorization import Asked
from paydesk.oauth.consent.errors import FORM_OUTDATED, SESSION_ENDED
from paydesk.oauth.consent.requests import Decision
from paydesk.oauth.consent.sessions import Session
from paydesk.oauth.pages import sign_in
from paydesk.oauth.pages.forms import Consent
from paydesk.operation import Answer, Call
from paydesk.storage.database import Transaction
from paydesk.web import html
from paydesk.web.browser import APPLICATIONS_PATH, SESSION, Visit, visit

CONSENT = "consent"
MINUTE_MS = 60_000
REFUSED = "The seller refused."


async def show(call: Call) -> Answer:
    """Ask the seller, once it is clear what is asked, where the answer goes, and who they are."""
    asked = authorization.read(call.query_string)
    found = await call.database.read(partial(applications.find, client_id=asked.client_id))
    application = authorization.known(asked, found)
    fault = authorization.fault(asked, application, references_checked=call.settings.card_numbers_refused_in_references)
    if fault is not None:
        return _back(call, asked.redirect_uri, asked.state, error=fault.error, error_description=fault.description)
    seen = visit(call)
    session = await seen.session()
    if session is None:
        notice = "ended" if seen.session_cookie else ""
        return sign_in.form(seen, asked.path(), application=application.name, notice=notice)
    return await _ask(seen, session, asked, application)


async def _ask(seen: Visit, session: Session, asked: Asked, application: Application) -> Answer:
    scope = authorization.scope(asked, application)
    assert scope is not None, "the checks have found it well-formed"
    call = seen.call
    request = await call.database.write(
        partial(
            requests.ask,
            session=session,
            asked=asked,
            scope=scope,
            now_ms=call.now_ms,
            expires_ms=call.now_ms + call.settings.consent_minutes * MINUTE_MS,
        )
    )
    cookie = seen.session_cookie or ""
    return html.page(
        "consent.html",
        seen.words,
        leads_away=True,
        application=application.name,
        host=authorization.host(asked.redirect_uri),
        scopes=html.scopes(scope),
        seller=session,
        request=request,
        return_to=asked.path(),
        form_token=seen.form_token(CONSENT, cookie),
        sign_out_token=seen.form_token(sign_in.SIGN_OUT, cookie),
        applications_path=APPLICATIONS_PATH,
    )


async def decide(call: Call) -> Answer:
    """What the seller decided, once: the code, or that they refused."""
    seen, sent = visit(call), call.body
    assert isinstance(sent, Consent)
    seen.check_origin()
    again = seen.return_to(sent.return_to)
    outcome = await call.database.write(partial(_decide, seen=seen, sent=sent))
    if isinstance(outcome, Refusal):
        if outcome.kind is SESSION_ENDED:
            return sign_in.form(seen, again, application=await sign_in.asking(call, again), refusal=outcome)
        raise sign_in.with_another_try(outcome, again)
    said = {"code": outcome.code} if outcome.code else {"error": "access_denied", "error_description": REFUSED}
    return _back(call, outcome.redirect_uri, outcome.state, **said)


async def _decide(tx: Transaction, seen: Visit, sent: Consent) -> Decision | Refusal:
    call = seen.call
    session = await seen.session_within(tx, locked=True)
    if session is None:
        return SESSION_ENDED.with_reason("no session that is good")
    if not seen.is_ours(CONSENT, sent.form_token, SESSION):
        return FORM_OUTDATED.with_reason("form token is not of this session")
    return await requests.decide(
        tx,
        call.keys,
        session=session,
        value=sent.request,
        agreed=sent.decision == "agree",
        now_ms=call.now_ms,
        code_expires_ms=call.now_ms + call.settings.code_lifetime_seconds * 1000,
    )


def _back(call: Call, redirect_uri: str, state: str | None, **said: str) -> Answer:
    return html.redirect(authorization.back(redirect_uri, state=state, issuer=call.settings.issuer, **said))
