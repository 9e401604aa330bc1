"""Sign-in and sign-out. Every sign-in begins a new session; signing out ends it on the server."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from paydesk.core import ids
from paydesk.core.errors import Refusal
from paydesk.oauth.clients import applications
from paydesk.oauth.consent import authorization, sellers, sessions
from paydesk.oauth.consent.errors import (
    FORM_OUTDATED,
    SELLER_SUSPENDED,
    SESSION_ENDED,
    SIGN_IN_FAILED,
    SIGN_IN_THROTTLED,
)
from paydesk.oauth.consent.passwords import hash_password, needs_rehash, verify_password
from paydesk.oauth.consent.sellers import Seller
from paydesk.oauth.consent.throttle import FAILURES_PER_ALERT, SignInThrottle
from paydesk.oauth.pages.forms import SignIn, SignOut
from paydesk.oauth.pages.seller_request import APPLICATIONS_PATH, SESSION, SellerRequest, safe_return_to
from paydesk.operation import Answer, Call
from paydesk.operator_events import OperatorEvent
from paydesk.storage.database import Transaction
from paydesk.web import html
from paydesk.web.browser import ANONYMOUS

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
    request = SellerRequest.of(call)
    if await request.session() is not None:
        return html.redirect(APPLICATIONS_PATH)
    return form(request, APPLICATIONS_PATH)


async def sign_in(call: Call) -> Answer:
    """`POST /sign-in`: begin a session. An unknown e-mail address and a wrong password are refused alike."""
    request, sent = SellerRequest.of(call), call.body
    assert isinstance(sent, SignIn)
    request.check_origin()
    return_to, email = safe_return_to(sent.return_to), sent.email.strip().lower()
    refuse = partial(form, request, return_to, application=await application_name(call, return_to))
    if not request.is_form_token_valid(SIGN_IN, sent.form_token, ANONYMOUS):
        return refuse(refusal=FORM_OUTDATED.with_reason("form token or its cookie is invalid"))
    cookie = await _authenticate(request, email, sent.password)
    if isinstance(cookie, Refusal):
        return refuse(refusal=cookie, email=email)
    return html.redirect(return_to, request.signed_in_headers(cookie, email))


async def _authenticate(request: SellerRequest, email: str, password: str) -> str | Refusal:
    """Return the cookie of a new session if the password is right. Only then may it raise SELLER_SUSPENDED."""
    call, known_browser = request.call, request.is_known_browser(email)
    throttle: SignInThrottle = call.state["sign_in_throttle"]
    seconds = throttle.refusal(email, call.address, known_browser=known_browser)
    if seconds is not None:
        return Refusal(SIGN_IN_THROTTLED, "throttled", extra={"seconds": seconds})
    seller, password_hash = await call.database.read(partial(_find_seller, email=email))
    known_origin = throttle.is_known_origin(email, call.address, known_browser=known_browser)
    if not await verify_password(password_hash, password, known_origin=known_origin):
        if throttle.failed(email, call.address, known_browser=known_browser):
            call.alert = _alert(call, seller)
        return SIGN_IN_FAILED.with_reason("password differs" if seller else "unknown e-mail address")
    assert seller is not None, "no password is right without a seller"
    assert password_hash is not None, "a seller has a password hash"
    throttle.succeeded(email, call.address, known_browser=known_browser)
    call.logged_seller_id = seller.seller_id
    if seller.suspended_ms is not None:
        raise SELLER_SUSPENDED.with_reason("seller suspended")
    cookie = await call.database.write(
        partial(_begin_session, request=request, seller=seller, password_hash=password_hash)
    )
    if cookie is None:
        # The password or the seller was changed during the verification: start over with the new row.
        return await _authenticate(request, email, password)
    await _rehash(call, seller, password_hash, password)
    return cookie


def _alert(call: Call, seller: Seller | None) -> OperatorEvent:
    """Return the event of failed sign-ins, without an unknown e-mail address: it may be a password."""
    seller_id = None if seller is None else seller.seller_id
    return OperatorEvent(
        "sign_in_failures",
        "unknown_email" if seller_id is None else str(seller_id),
        f"{FAILURES_PER_ALERT} sign-ins with one e-mail address failed from one address within an hour.",
        seller_id,
        {"address": call.address, "failures": FAILURES_PER_ALERT},
    )


async def _rehash(call: Call, seller: Seller, password_hash: str, password: str) -> None:
    """Replace a hash made with outdated parameters; if the hashing queue is full, the next sign-in does it."""
    if not needs_rehash(password_hash):
        return
    with suppress(Refusal):
        new = await hash_password(password)
        await call.database.write(partial(sellers.replace_hash, seller_id=seller.seller_id, old=password_hash, new=new))


async def sign_out(call: Call) -> Answer:
    """`POST /sign-out`: end the session, or all sessions of the seller, and return to the page it came from."""
    request, sent = SellerRequest.of(call), call.body
    assert isinstance(sent, SignOut)
    request.check_origin()
    cookie, return_to = request.session_cookie, safe_return_to(sent.return_to)
    if cookie is not None:
        if not request.is_form_token_valid(SIGN_OUT, sent.form_token, SESSION):
            raise with_retry_link(FORM_OUTDATED.with_reason("form token is not of this session"), return_to)
        everywhere = bool(sent.everywhere)
        if not await call.database.write(partial(_end, request=request, cookie=cookie, everywhere=everywhere)):
            return form(request, return_to, refusal=SESSION_ENDED.with_reason("no valid session"))
    return html.redirect(return_to, (request.set_cookie(SESSION, "", 0),))


async def application_name(call: Call, return_to: str) -> str:
    """Return the name of the application in an authorization request's path, or an empty string."""
    try:
        authorization_request = authorization.read(return_to.partition("?")[2])
    except Refusal:
        return ""
    application = await call.database.read(partial(applications.find, client_id=authorization_request.client_id))
    return application.name if application is not None else ""


def with_retry_link(refusal: Refusal, path: str) -> Refusal:
    """Return the refusal with a link to `path` on its error page."""
    return Refusal(refusal.kind, refusal.reason, extra={html.AGAIN: path})


async def _find_seller(tx: Transaction, email: str) -> tuple[Seller, str] | tuple[None, None]:
    return await sellers.find_by_email(tx, email) or (None, None)


async def _end(tx: Transaction, request: SellerRequest, cookie: str, *, everywhere: bool) -> bool:
    """End the session, or all of the seller's. False if all should end and this session is not valid."""
    now_ms = request.call.now_ms
    if everywhere:
        is_ended = await sessions.end_everywhere(tx, cookie, now_ms, idle_ms=request.session_idle_ms)
    else:
        is_ended = await sessions.end(tx, cookie, now_ms)
    if is_ended:
        request.call.logged_seller_id = ids.seller_of(cookie) or 0
    return is_ended or not everywhere


async def _begin_session(tx: Transaction, request: SellerRequest, seller: Seller, password_hash: str) -> str | None:
    now_ms = request.call.now_ms
    cookie = await sessions.begin(
        tx,
        seller_id=seller.seller_id,
        password_hash=password_hash,
        now_ms=now_ms,
        expires_ms=now_ms + request.call.settings.session_hours * HOUR_MS,
    )
    if cookie is not None and request.session_cookie is not None:
        await sessions.end(tx, request.session_cookie, now_ms)
    return cookie
