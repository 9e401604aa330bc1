"""Sign-in and sign-out. Every sign-in begins a new session; signing out ends it on the server."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from paydesk.core import ids
from paydesk.core.errors import Refusal
from paydesk.core.text import canonical_email
from paydesk.oauth.clients import applications
from paydesk.oauth.consent import authorization, sellers, sessions
from paydesk.oauth.consent.passwords import hash_password, needs_rehash, verify_password
from paydesk.oauth.consent.sellers import Seller
from paydesk.oauth.consent.throttle import FAILURES_PER_ALERT
from paydesk.oauth.errors import (
    FORM_OUTDATED,
    SELLER_SUSPENDED,
    SESSION_ENDED,
    SIGN_IN_FAILED,
    SIGN_IN_THROTTLED,
)
from paydesk.oauth.pages.forms import SignIn, SignOut
from paydesk.oauth.pages.seller_request import (
    APPLICATIONS_PATH,
    SESSION,
    SellerRequest,
    form_outdated,
    safe_return_to,
)
from paydesk.operation import Answer, Call
from paydesk.operator_events import OperatorEvent
from paydesk.storage.database import Database
from paydesk.web import html
from paydesk.web.forms import ANONYMOUS

HOUR_MS = 3_600_000
SIGN_IN, SIGN_OUT = "sign-in", "sign-out"

_NOTICES = {
    SIGN_IN_FAILED: "failed",
    SIGN_IN_THROTTLED: "throttled",
    FORM_OUTDATED: "outdated",
    SESSION_ENDED: "ended",
}


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
    cookie, headers = request.anonymous_cookie()
    seconds = refusal.extra.get("seconds", 0) if refusal is not None else 0
    notice = _NOTICES[refusal.kind] if refusal is not None else notice
    answer = request.page(
        "sign_in.html",
        status=refusal.kind.status if refusal is not None else 200,
        isolated=return_to == APPLICATIONS_PATH,
        headers=(*headers, *((("retry-after", str(seconds)),) if seconds else ())),
        form_token=request.form_token(SIGN_IN, cookie),
        return_to=return_to,
        notice=request.texts(f"sign_in.{notice}", minutes=-(-seconds // 60)) if notice else "",
        application=application,
        is_fault=refusal is not None and refusal.kind is not SESSION_ENDED,
        is_wrong=refusal is not None and refusal.kind is SIGN_IN_FAILED,
        email=email,
    )
    return Answer(answer.status, answer.body, answer.headers, answer.media_type, refusal)


async def show(call: Call) -> Answer:
    """`GET /sign-in`: the form, for a seller who reloads the page of a refused sign-in."""
    request = SellerRequest(call)
    session = await request.session(call.database)
    call.logged_seller_id = request.seller_id
    return form(request, APPLICATIONS_PATH) if session is None else html.redirect(APPLICATIONS_PATH)


async def sign_in(call: Call) -> Answer:
    """`POST /sign-in`: begin a session. An unknown e-mail address and a wrong password are refused alike."""
    request, sent = SellerRequest(call), call.body
    assert isinstance(sent, SignIn)
    request.check_origin()
    return_to, email = safe_return_to(sent.return_to), canonical_email(sent.email)
    refuse = partial(form, request, return_to, application=await _application_name(call.database, return_to))
    if not request.is_form_token_valid(SIGN_IN, sent.form_token, ANONYMOUS):
        return refuse(refusal=FORM_OUTDATED.with_reason("form token or its cookie is invalid"))
    cookie = await _authenticate(call, request, email, sent.password)
    if isinstance(cookie, Refusal):
        return refuse(refusal=cookie, email=email)
    return html.redirect(return_to, request.signed_in_headers(cookie, email))


async def _authenticate(call: Call, request: SellerRequest, email: str, password: str) -> str | Refusal:
    """Return the cookie of a new session if the password is right. Only then may it raise SELLER_SUSPENDED."""
    database, address, known_browser = call.database, call.address, request.is_known_browser(email)
    throttle = call.shared.sign_in_throttle
    seconds = throttle.refusal(email, address, known_browser=known_browser)
    if seconds is not None:
        return Refusal(SIGN_IN_THROTTLED, "throttled", extra={"seconds": seconds})
    found = await database.read(partial(sellers.find_by_email, email=email))
    seller, password_hash = found or (None, None)
    known_origin = throttle.is_known_origin(email, address, known_browser=known_browser)
    if not await verify_password(password_hash, password, known_origin=known_origin):
        if throttle.failed(email, address, known_browser=known_browser):
            call.alert = _alert(address, seller)
        return SIGN_IN_FAILED.with_reason("password differs" if seller else "unknown e-mail address")
    assert seller is not None, "no password is right without a seller"
    assert password_hash is not None, "a seller has a password hash"
    throttle.succeeded(email, address, known_browser=known_browser)
    call.logged_seller_id = seller_id = seller.seller_id
    if seller.suspended_ms is not None:
        raise SELLER_SUSPENDED.with_reason("seller suspended")
    cookie = await database.write(
        partial(
            sessions.begin,
            seller_id=seller_id,
            password_hash=password_hash,
            now_ms=call.now_ms,
            expires_ms=call.now_ms + call.settings.session_hours * HOUR_MS,
            previous_cookie=request.session_cookie,
        )
    )
    if cookie is None:
        # The password or the seller was changed during the verification: start over with the new row.
        return await _authenticate(call, request, email, password)
    if needs_rehash(password_hash):
        # If the hashing queue is full, the next sign-in does it.
        with suppress(Refusal):
            new = await hash_password(password)
            await database.write(partial(sellers.replace_hash, seller_id=seller_id, old=password_hash, new=new))
    return cookie


def _alert(address: str, seller: Seller | None) -> OperatorEvent:
    """Return the event of failed sign-ins, without an unknown e-mail address: it may be a password."""
    seller_id = None if seller is None else seller.seller_id
    return OperatorEvent(
        "sign_in_failures",
        "unknown_email" if seller_id is None else str(seller_id),
        f"{FAILURES_PER_ALERT} sign-ins with one e-mail address failed from one address within an hour.",
        seller_id,
        {"address": address, "failures": FAILURES_PER_ALERT},
    )


async def sign_out(call: Call) -> Answer:
    """`POST /sign-out`: end the session, or all sessions of the seller, and return to the page it came from."""
    request, sent = SellerRequest(call), call.body
    assert isinstance(sent, SignOut)
    request.check_origin()
    cookie, return_to = request.session_cookie, safe_return_to(sent.return_to)
    if cookie:
        if not request.is_form_token_valid(SIGN_OUT, sent.form_token, SESSION):
            raise _with_retry_link(form_outdated(), return_to)
        end_session = partial(sessions.end, cookie=cookie, now_ms=call.now_ms)
        if sent.everywhere:
            idle_ms = request.session_idle_ms
            end_session = partial(sessions.end_everywhere, cookie=cookie, now_ms=call.now_ms, idle_ms=idle_ms)
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
