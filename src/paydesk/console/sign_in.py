"""Sign-in, sign-out, and the link with which `paydesk dev` opens the console. Every sign-in begins a new session."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import ClassVar
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field

from paydesk.console.request import EVENTS_PATH, PATH, SIGN_IN_PATH, ConsoleRequest
from paydesk.console.screen import PACKAGE
from paydesk.core.errors import NOT_FOUND, UNAUTHORIZED, Refusal
from paydesk.core.secrets import Secret
from paydesk.core.text import canonical_email
from paydesk.oauth.consent.passwords import hash_password, needs_rehash, verify_password
from paydesk.oauth.errors import FORM_OUTDATED, SIGN_IN_FAILED, SIGN_IN_THROTTLED
from paydesk.operation import Answer, Call
from paydesk.operator_events import OperatorEvent
from paydesk.operators import sessions, store
from paydesk.web import html
from paydesk.web.forms import ANONYMOUS
from paydesk.web.language import texts

HOUR_MS = 3_600_000
PURPOSE = "console-sign-in"
UNKNOWN = "unknown_operator"
"""The subject of the event of failed sign-ins with e-mail addresses that no operator has."""
_OWN_PATH = re.compile(rf"{PATH}(?:[/?][\x21-\x7e]*)?", re.ASCII)
_NOTICES = {SIGN_IN_FAILED: "failed", SIGN_IN_THROTTLED: "throttled", FORM_OUTDATED: "outdated"}


class SignIn(BaseModel):
    """A sign-in."""

    model_config = ConfigDict(extra="forbid")
    INVISIBLE_ALLOWED: ClassVar[frozenset[str]] = frozenset({"password"})

    form_token: str = Field(max_length=100, description="From the page with the form.")
    return_to: str = Field("", max_length=2000, description="The page of the console to open.")
    email: str = Field(max_length=320)
    password: str = Field(max_length=4096)


async def show(call: Call) -> Answer:
    """Show the form, or open the console if the browser has a session."""
    request = ConsoleRequest(call)
    return_to = own_path(call.query.get("return_to", ""))
    if await request.open_session():
        return html.redirect(return_to)
    return form(request, return_to, notice="ended" if request.token else "", takes_notice=True)


async def sign_in(call: Call) -> Answer:
    """Begin a session. An unknown e-mail address and a wrong password are refused alike."""
    request, sent = ConsoleRequest(call), call.body
    assert isinstance(sent, SignIn)
    request.check_origin()
    return_to, email = own_path(sent.return_to), canonical_email(sent.email)
    if not request.is_form_token_valid(PURPOSE, sent.form_token, ANONYMOUS):
        return form(request, return_to, FORM_OUTDATED.with_reason("form token or its cookie is invalid"), email=email)
    token = await _authenticate(request, email, sent.password)
    if isinstance(token, Refusal):
        return form(request, return_to, token, email=email)
    return signed_in(request, token, return_to)


async def sign_out(call: Call) -> Answer:
    """End the session."""
    request = ConsoleRequest(call)
    if await request.open_session():
        request.check_form()
        await call.database.write(lambda tx: sessions.end(tx, request.token, call.now_ms))
    return html.redirect(SIGN_IN_PATH, (request.set_cookie(request.cookie_name, "", 0),))


async def enter(call: Call) -> Answer:
    """Sign in by the key of the link that `paydesk dev` prints. The address of the answer has no key."""
    key, sent = call.shared.console_key, call.query.get("key", "")
    if key is None or not key.is_valid(sent):
        guess = UNAUTHORIZED.with_reason("wrong key of the console")
        counted = call.shared.bearer_rates.failed(guess, sent or None, call.address)
        raise NOT_FOUND.with_reason("wrong key") if counted is guess else counted
    request = ConsoleRequest(call)
    token = await begin(request, key.operator_id)
    if token is None:
        raise NOT_FOUND.with_reason("the operator is revoked")
    return signed_in(request, token, PATH)


def own_path(path: str) -> str:
    """Return `path` if it is a page of the console, else the overview; never another site."""
    is_own = _OWN_PATH.fullmatch(path) and not path.startswith((SIGN_IN_PATH, EVENTS_PATH))
    # Browsers resolve dots, escaped ones too: the path would not be below the console's.
    return path if is_own and ".." not in unquote(path.partition("?")[0]) else PATH


def form(
    request: ConsoleRequest,
    return_to: str,
    refusal: Refusal | None = None,
    *,
    notice: str = "",
    email: str = "",
    takes_notice: bool = False,
) -> Answer:
    """Return the sign-in page, with the refusal of the last attempt, or with what ended the session."""
    words = texts("en")
    cookie, headers = request.anonymous_cookie()
    done, taken = request.take_notice() if takes_notice else (None, ())
    seconds = refusal.extra.get("seconds", 0) if refusal is not None else 0
    notice = _NOTICES[refusal.kind] if refusal is not None else notice
    shown = html.page(
        "sign_in.html",
        words,
        package=PACKAGE,
        status=refusal.kind.status if refusal is not None else 200,
        isolated=True,
        headers=(*headers, *taken, *((("retry-after", str(seconds)),) if seconds else ())),
        form_token=request.form_token(PURPOSE, cookie),
        action=SIGN_IN_PATH,
        return_to=return_to,
        done=done.text if done is not None else "",
        notice=words(f"sign_in.{notice}", minutes=-(-seconds // 60)) if notice else "",
        is_fault=refusal is not None,
        is_wrong=refusal is not None and refusal.kind is SIGN_IN_FAILED,
        development=request.development,
        email=email,
    )
    return Answer(shown.status, shown.body, shown.headers, shown.media_type, refusal)


async def begin(request: ConsoleRequest, operator_id: str, password_hash: str = "") -> Secret | None:
    """Begin a session of the operator, and end the browser's previous one.

    Returns None if the operator was revoked, or `password_hash` is not that of the password any more.
    """
    call = request.call
    work = partial(
        sessions.begin,
        operator_id=operator_id,
        password_hash=password_hash,
        address=call.address,
        user_agent=call.headers.get("user-agent", ""),
        now_ms=call.now_ms,
        expires_ms=call.now_ms + call.settings.session_hours * HOUR_MS,
        previous=request.token,
    )
    return await call.database.write(work)


def signed_in(request: ConsoleRequest, token: Secret, path: str) -> Answer:
    """Return the redirect to a page, with the cookie of the new session."""
    return html.redirect(path, (request.set_cookie(request.cookie_name, token.reveal()),))


async def _authenticate(request: ConsoleRequest, email: str, password: str) -> Secret | Refusal:
    """Return the token of a new session if the password is right."""
    call, throttle = request.call, request.call.shared.operator_sign_in_throttle
    database, address = call.database, call.address
    seconds = throttle.refusal(email, address)
    if seconds is not None:
        return Refusal(SIGN_IN_THROTTLED, "throttled", extra={"seconds": seconds})
    found = await database.read(partial(store.by_email, email=email))
    is_valid = found is not None and found.password_hash is not None and found.revoked_ms is None
    stored = found.password_hash if found is not None and is_valid else None
    if not await verify_password(stored, password, known_origin=throttle.is_known_origin(email, address)):
        throttle.failed(email, address)
        call.alert = _alert(address, found.operator_id if found is not None else "")
        return SIGN_IN_FAILED.with_reason("password differs" if is_valid else "unknown or revoked operator")
    assert found is not None, "no password is right without an operator"
    assert stored is not None, "nor without a hash"
    throttle.succeeded(email, address)
    token = await begin(request, found.operator_id, stored)
    if token is None:
        # The password or the operator was changed during the verification: start over with the new row.
        return await _authenticate(request, email, password)
    if needs_rehash(stored):
        # If the hashing queue is full, the next sign-in does it.
        with suppress(Refusal):
            new = await hash_password(password)
            await database.write(partial(store.replace_hash, operator_id=found.operator_id, old=stored, new=new))
    return token


def _alert(address: str, operator_id: str) -> OperatorEvent:
    """Return the event of a failed sign-in, without an unknown e-mail address: it may be a password."""
    message = "A sign-in of this operator failed." if operator_id else "A sign-in of an unknown operator failed."
    return OperatorEvent("sign_in_failures", operator_id or UNKNOWN, message, None, {"address": address})
