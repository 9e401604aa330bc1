"""Signing in and out. A session begins anew at every sign-in, and ends on the server at sign-out."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from paydesk.core import ids
from paydesk.core.errors import Refusal
from paydesk.oauth.clients import applications
from paydesk.oauth.clients.throttle import FAILURES_PER_ALERT, SignInThrottle
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
from paydesk.oauth.pages.forms import SignIn, SignOut
from paydesk.operation import Answer, Call
from paydesk.operator_events import OperatorEvent
from paydesk.storage.database import Transaction
from paydesk.web import html
from paydesk.web.browser import APPLICATIONS_PATH, SESSION, VISIT, Visit, visit

HOUR_MS = 3_600_000
SIGN_IN, SIGN_OUT = "sign-in", "sign-out"

_NOTICES = {
    SIGN_IN_FAILED: "failed",
    SIGN_IN_THROTTLED: "throttled",
    FORM_OUTDATED: "outdated",
    SESSION_ENDED: "ended",
}


def form(
    seen: Visit,
    return_to: str,
    *,
    application: str = "",
    refusal: Refusal | None = None,
    notice: str = "",
    email: str = "",
) -> Answer:
    """The page that asks who it is: for which `application`, and with what was refused where it is shown for that."""
    cookie, headers = seen.visit_cookie()
    seconds = refusal.extra.get("seconds", 0) if refusal is not None else 0
    notice = _NOTICES[refusal.kind] if refusal is not None else notice
    answer = html.page(
        "sign_in.html",
        seen.words,
        status=refusal.kind.status if refusal is not None else 200,
        isolated=return_to == APPLICATIONS_PATH,
        headers=(*headers, *((("retry-after", str(seconds)),) if seconds else ())),
        form_token=seen.form_token(SIGN_IN, cookie),
        return_to=return_to,
        notice=seen.words(f"sign_in.{notice}", minutes=-(-seconds // 60)) if notice else "",
        application=application,
        is_fault=refusal is not None and refusal.kind is not SESSION_ENDED,
        is_wrong=refusal is not None and refusal.kind is SIGN_IN_FAILED,
        email=email,
    )
    return Answer(answer.status, answer.body, answer.headers, answer.media_type, refusal)


async def show(call: Call) -> Answer:
    """`GET /sign-in`: for who reloads the page of a form that was refused."""
    seen = visit(call)
    if await seen.session() is not None:
        return html.redirect(APPLICATIONS_PATH)
    return form(seen, APPLICATIONS_PATH)


async def sign_in(call: Call) -> Answer:
    """`POST /sign-in`: who it is, and on with what was begun. Unknown address and wrong password are one refusal."""
    seen, sent = visit(call), call.body
    assert isinstance(sent, SignIn)
    seen.check_origin()
    return_to, email = seen.return_to(sent.return_to), sent.email.strip().lower()
    refuse = partial(form, seen, return_to, application=await asking(call, return_to))
    if not seen.is_ours(SIGN_IN, sent.form_token, VISIT):
        return refuse(refusal=FORM_OUTDATED.with_reason("form token or its cookie is not good"))
    cookie = await _proven(seen, email, sent.password)
    if isinstance(cookie, Refusal):
        return refuse(refusal=cookie, email=email)
    return html.redirect(return_to, seen.signed_in(cookie, email))


async def _proven(seen: Visit, email: str, password: str) -> str | Refusal:
    """The cookie of a new session, where the password is right. Raises SELLER_SUSPENDED, to nobody else."""
    call, is_known = seen.call, seen.knows(email)
    throttle: SignInThrottle = call.state["sign_in_throttle"]
    seconds = throttle.refusal(email, call.address, known_browser=is_known)
    if seconds is not None:
        return Refusal(SIGN_IN_THROTTLED, "throttled", extra={"seconds": seconds})
    seller, password_hash = await call.database.read(partial(_seller, email=email))
    is_near = throttle.knows(email, call.address, known_browser=is_known)
    if not await verify_password(password_hash, password, known=is_near):
        if throttle.failed(email, call.address, known_browser=is_known):
            call.alert = _alert(call, seller)
        return SIGN_IN_FAILED.with_reason("password differs" if seller else "unknown e-mail address")
    assert seller is not None, "nobody's password is right"
    assert password_hash is not None, "a seller has one"
    throttle.succeeded(email, call.address, known_browser=is_known)
    call.logged_seller_id = seller.seller_id
    if seller.suspended_ms is not None:
        raise SELLER_SUSPENDED.with_reason("seller suspended")
    cookie = await call.database.write(partial(_begin, seen=seen, seller=seller, password_hash=password_hash))
    if cookie is None:
        # The password or the seller was changed meanwhile: what there is now decides.
        return await _proven(seen, email, password)
    await _keep_up(call, seller, password_hash, password)
    return cookie


def _alert(call: Call, seller: Seller | None) -> OperatorEvent:
    """Return the event of failed sign-ins. What is no seller's e-mail address is left out: it may be a password."""
    seller_id = None if seller is None else seller.seller_id
    return OperatorEvent(
        "sign_in_failures",
        "unknown_email" if seller_id is None else str(seller_id),
        f"{FAILURES_PER_ALERT} sign-ins with one e-mail address failed from one address within an hour.",
        seller_id,
        {"address": call.address, "failures": FAILURES_PER_ALERT},
    )


async def _keep_up(call: Call, seller: Seller, password_hash: str, password: str) -> None:
    """A hash with other parameters than today's is replaced while the password is known; busy threads put it off."""
    if not needs_rehash(password_hash):
        return
    with suppress(Refusal):
        new = await hash_password(password)
        await call.database.write(partial(sellers.replace_hash, seller_id=seller.seller_id, old=password_hash, new=new))


async def sign_out(call: Call) -> Answer:
    """`POST /sign-out`: end the session, or all sessions of the seller; what was begun goes on with another seller."""
    seen, sent = visit(call), call.body
    assert isinstance(sent, SignOut)
    seen.check_origin()
    cookie, return_to = seen.session_cookie, seen.return_to(sent.return_to)
    if cookie is not None:
        if not seen.is_ours(SIGN_OUT, sent.form_token, SESSION):
            raise with_another_try(FORM_OUTDATED.with_reason("form token is not of this session"), return_to)
        if not await call.database.write(partial(_end, seen=seen, cookie=cookie, everywhere=bool(sent.everywhere))):
            return form(seen, return_to, refusal=SESSION_ENDED.with_reason("no session that is good"))
    return html.redirect(return_to, (seen.set_cookie(SESSION, "", 0),))


async def asking(call: Call, return_to: str) -> str:
    """The name of the application that a page to come back to is about, or an empty string."""
    try:
        asked = authorization.read(return_to.partition("?")[2])
    except Refusal:
        return ""
    application = await call.database.read(partial(applications.find, client_id=asked.client_id))
    return application.name if application is not None else ""


def with_another_try(refusal: Refusal, path: str) -> Refusal:
    """The refusal, whose page leads to another try."""
    return Refusal(refusal.kind, refusal.reason, extra={html.AGAIN: path})


async def _seller(tx: Transaction, email: str) -> tuple[Seller, str] | tuple[None, None]:
    return await sellers.find_by_email(tx, email) or (None, None)


async def _end(tx: Transaction, seen: Visit, cookie: str, *, everywhere: bool) -> bool:
    """End the session, or all of the seller's; False where all were to end and this one is over: it ends no others."""
    now_ms = seen.call.now_ms
    if everywhere:
        is_ended = await sessions.end_everywhere(tx, cookie, now_ms, idle_ms=seen.session_idle_ms)
    else:
        is_ended = await sessions.end(tx, cookie, now_ms)
    if is_ended:
        seen.call.logged_seller_id = ids.seller_of(cookie) or 0
    return is_ended or not everywhere


async def _begin(tx: Transaction, seen: Visit, seller: Seller, password_hash: str) -> str | None:
    now_ms = seen.call.now_ms
    cookie = await sessions.begin(
        tx,
        seller_id=seller.seller_id,
        password_hash=password_hash,
        now_ms=now_ms,
        expires_ms=now_ms + seen.call.settings.session_hours * HOUR_MS,
    )
    if cookie is not None and seen.session_cookie is not None:
        await sessions.end(tx, seen.session_cookie, now_ms)
    return cookie
