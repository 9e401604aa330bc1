"""Sign-in and sign-out. Every sign-in begins a new session; signing out ends it on the server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from paydesk.core import ids
from paydesk.core.errors import FORM_OUTDATED, Refusal
from paydesk.core.text.characters import canonical_email
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.consent import authorization
from paydesk.engine.oauth.pages.forms import SignIn, SignOut
from paydesk.engine.oauth.pages.seller_request import (
    APPLICATIONS_PATH,
    SESSION,
    SellerRequest,
    form_outdated,
    safe_return_to,
)
from paydesk.engine.sellers.errors import SESSION_ENDED, SIGN_IN_FAILED, SIGN_IN_THROTTLED
from paydesk.engine.sellers.sessions import SELLERS, end_everywhere
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Database
from paydesk.platform.web import html
from paydesk.platform.web.forms import ANONYMOUS, BrowserRequest, Header
from paydesk.platform.web.language import Texts

SIGN_IN, SIGN_OUT = "sign-in", "sign-out"

_NOTICES = {
    SIGN_IN_FAILED: "failed",
    SIGN_IN_THROTTLED: "throttled",
    FORM_OUTDATED: "outdated",
    SESSION_ENDED: "ended",
}


def answer(
    request: BrowserRequest,
    page: Callable[..., Answer],
    words: Texts,
    purpose: str,
    refusal: Refusal | None,
    *,
    notice: str = "",
    headers: tuple[Header, ...] = (),
    **values: Any,
) -> Answer:
    """Return a sign-in page, for sellers or operators, with the refusal of the last attempt or a notice."""
    cookie, cookie_headers = request.anonymous_cookie()
    seconds = refusal.extra.get("seconds", 0) if refusal is not None else 0
    notice = _NOTICES[refusal.kind] if refusal is not None else notice
    shown = page(
        "sign_in.html",
        status=refusal.kind.status if refusal is not None else 200,
        headers=(*cookie_headers, *headers, *((("retry-after", str(seconds)),) if seconds else ())),
        form_token=request.form_token(purpose, cookie),
        notice=words(f"sign_in.{notice}", minutes=-(-seconds // 60)) if notice else "",
        is_fault=refusal is not None and refusal.kind is not SESSION_ENDED,
        is_wrong=refusal is not None and refusal.kind is SIGN_IN_FAILED,
        **values,
    )
    return Answer(shown.status, shown.body, shown.headers, shown.media_type, refusal)


def form(
    request: SellerRequest,
    return_to: str,
    *,
    application: str = "",
    refusal: Refusal | None = None,
    notice: str = "",
    email: str = "",
) -> Answer:
    """Return the sign-in page, with the `application` that the seller signs in for and the refusal of the last try."""
    return answer(
        request,
        request.page,
        request.texts,
        SIGN_IN,
        refusal,
        notice=notice,
        isolated=return_to == APPLICATIONS_PATH,
        return_to=return_to,
        application=application,
        email=email,
    )


async def show(call: Call) -> Answer:
    """Show the sign-in form: for a seller who reloads the page of a refused sign-in."""
    request = SellerRequest(call)
    session = await request.session(call.database)
    call.logged_seller_id = request.seller_id
    return form(request, APPLICATIONS_PATH) if session is None else html.redirect(APPLICATIONS_PATH)


async def sign_in(call: Call) -> Answer:
    """Sign a seller in. An unknown e-mail address and a wrong password are refused alike."""
    request, sent = SellerRequest(call), call.body
    assert isinstance(sent, SignIn)
    request.check_origin()
    return_to, email = safe_return_to(sent.return_to), canonical_email(sent.email)
    refuse = partial(form, request, return_to, application=await _application_name(call.database, return_to))
    if not request.is_form_token_valid(SIGN_IN, sent.form_token, ANONYMOUS):
        return refuse(refusal=FORM_OUTDATED.with_reason("form token or its cookie is invalid"))
    token = await SELLERS.sign_in(
        call, email, sent.password, previous=request.session_cookie, known_browser=request.is_known_browser(email)
    )
    if isinstance(token, Refusal):
        return refuse(refusal=token, email=email)
    return html.redirect(return_to, request.signed_in_headers(token.reveal(), email))


async def sign_out(call: Call) -> Answer:
    """Sign the seller out: end the session, or all sessions of the seller, and return to the page it came from."""
    request, sent = SellerRequest(call), call.body
    assert isinstance(sent, SignOut)
    request.check_origin()
    cookie, return_to = request.session_cookie, safe_return_to(sent.return_to)
    if cookie:
        if not request.is_form_token_valid(SIGN_OUT, sent.form_token, SESSION):
            raise _with_retry_link(form_outdated(), return_to)
        end_session = partial(SELLERS.end, token=cookie, now_ms=call.now_ms)
        if sent.everywhere:
            idle_ms = request.session_idle_ms
            end_session = partial(end_everywhere, cookie=cookie, now_ms=call.now_ms, idle_ms=idle_ms)
        if await call.database.write(end_session):
            call.logged_seller_id = ids.seller_of(cookie) or 0
        elif sent.everywhere:
            return form(request, return_to, refusal=SESSION_ENDED.with_reason("no valid session"))
    return html.redirect(return_to, (request.set_cookie(SESSION, "", 0),))


async def refused(request: SellerRequest, database: Database, refusal: Refusal, return_to: str) -> Answer:
    """Return the sign-in page if the session has ended; raise any other refusal with a link to its page."""
    if refusal.kind is SESSION_ENDED:
        application = await _application_name(database, return_to)
        return form(request, return_to, application=application, refusal=refusal)
    raise _with_retry_link(refusal, return_to)


async def _application_name(database: Database, return_to: str) -> str:
    """Return the name of the application in an authorization request's path, or an empty string."""
    if return_to == APPLICATIONS_PATH:
        return ""
    try:
        client_id = authorization.read(return_to.partition("?")[2]).client_id
    except Refusal:
        return ""
    application = await database.read(partial(applications.find, client_id=client_id))
    return application.name if application is not None else ""


def _with_retry_link(refusal: Refusal, path: str) -> Refusal:
    return Refusal(refusal.kind, refusal.reason, extra={html.AGAIN: path})
