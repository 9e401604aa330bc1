"""Signing in and out. A session begins anew at every sign-in, and ends on the server at sign-out."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from paydesk.errors import ErrorKind, Refusal
from paydesk.oauth import sellers, sessions
from paydesk.oauth.pages import html
from paydesk.oauth.pages.errors import (
    FORM_OUTDATED,
    SELLER_SUSPENDED,
    SESSION_ENDED,
    SIGN_IN_FAILED,
    SIGN_IN_THROTTLED,
)
from paydesk.oauth.pages.forms import SignIn, SignOut
from paydesk.oauth.pages.visit import APPLICATIONS_PATH, SESSION, VISIT, Visit, visit
from paydesk.oauth.passwords import verify_password
from paydesk.oauth.sellers import Seller
from paydesk.operation import Answer, Call
from paydesk.storage.database import Transaction

HOUR_MS = 3_600_000
SIGN_IN, SIGN_OUT = "sign-in", "sign-out"

_NOTICES = {
    SIGN_IN_FAILED: "failed",
    SIGN_IN_THROTTLED: "throttled",
    FORM_OUTDATED: "outdated",
    SESSION_ENDED: "ended",
}


class Throttle(Protocol):
    """Who may try to sign in, and how often."""

    def refusal(self, email: str, address: str, known_browser: bool) -> int | None:  # noqa: FBT001 - as it is called
        """The seconds to wait, or None."""

    def failed(self, email: str, address: str) -> None:
        """A password was wrong."""

    def succeeded(self, email: str, address: str) -> None:
        """A password was right."""


def form(seen: Visit, return_to: str, *, refusal: Refusal | None = None, notice: str = "", email: str = "") -> Answer:
    """The page that asks who it is; with what was refused, where it is shown for that."""
    cookie, headers = seen.visit_cookie()
    seconds = refusal.extra.get("seconds", 0) if refusal is not None else 0
    notice = _NOTICES[refusal.kind] if refusal is not None else notice
    answer = html.page(
        "sign_in.html",
        seen.words,
        status=refusal.kind.status if refusal is not None else 200,
        headers=(*headers, *((("retry-after", str(seconds)),) if seconds else ())),
        form_token=seen.form_token(SIGN_IN, cookie),
        return_to=return_to,
        notice=seen.words(f"sign_in.{notice}", seconds=seconds) if notice else "",
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
    if not seen.is_ours(SIGN_IN, sent.form_token, VISIT):
        return form(seen, return_to, refusal=FORM_OUTDATED.because("form token or its cookie is not good"))
    refuse = partial(form, seen, return_to, email=email)
    throttle: Throttle | None = call.state.get("sign_in_throttle")
    seconds = throttle.refusal(email, call.address, seen.knows(email)) if throttle is not None else None
    if seconds is not None:
        return refuse(refusal=_after(SIGN_IN_THROTTLED, seconds))
    seller, password_hash = await call.database.read(partial(_seller, email=email))
    if not await verify_password(password_hash, sent.password):
        if throttle is not None:
            throttle.failed(email, call.address)
        return refuse(refusal=SIGN_IN_FAILED.because("password differs" if seller else "unknown e-mail address"))
    assert seller is not None, "nobody's password is verified"
    assert password_hash is not None, "a seller has one"
    if throttle is not None:
        throttle.succeeded(email, call.address)
    if seller.suspended_ms is not None:
        raise SELLER_SUSPENDED.because("seller suspended")
    cookie = await call.database.write(partial(_begin, seen=seen, seller=seller, password_hash=password_hash))
    if cookie is None:
        return refuse(refusal=SIGN_IN_FAILED.because("another password or a suspension meanwhile"))
    return html.redirect(return_to, seen.signed_in(cookie, email))


async def sign_out(call: Call) -> Answer:
    """`POST /sign-out`: the session ends, and what was begun goes on with another seller."""
    seen, sent = visit(call), call.body
    assert isinstance(sent, SignOut)
    seen.check_origin()
    cookie, return_to = seen.session_cookie, seen.return_to(sent.return_to)
    if cookie is not None:
        if not seen.is_ours(SIGN_OUT, sent.form_token, SESSION):
            raise with_another_try(FORM_OUTDATED.because("form token is not of this session"), return_to)
        await call.database.write(partial(sessions.end, cookie=cookie, now_ms=call.now_ms))
    return html.redirect(return_to, (seen.set_cookie(SESSION, "", 0),))


def with_another_try(refusal: Refusal, path: str) -> Refusal:
    """The refusal, whose page leads to another try."""
    return Refusal(refusal.kind, refusal.reason, extra={html.AGAIN: path})


def _after(kind: ErrorKind, seconds: int) -> Refusal:
    return Refusal(kind, "throttled", extra={"seconds": seconds})


async def _seller(tx: Transaction, email: str) -> tuple[Seller, str] | tuple[None, None]:
    return await sellers.find_by_email(tx, email) or (None, None)


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
