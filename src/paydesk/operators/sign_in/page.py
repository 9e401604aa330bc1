"""Sign-in and sign-out. Every sign-in begins a new session."""

from __future__ import annotations

import re
from functools import partial
from urllib.parse import unquote

from pydantic import Field

from paydesk.console.request import EVENTS_PATH, PATH, SIGN_IN_PATH, ConsoleRequest
from paydesk.console.screen import PACKAGE
from paydesk.console.sessions import OPERATORS
from paydesk.core.errors import FORM_OUTDATED, Refusal
from paydesk.core.secrets import Secret
from paydesk.core.text.characters import canonical_email
from paydesk.engine.oauth.pages import forms
from paydesk.engine.oauth.pages.sign_in import answer
from paydesk.platform.operation import Answer, Call
from paydesk.platform.web import html
from paydesk.platform.web.forms import ANONYMOUS
from paydesk.platform.web.language import texts

PURPOSE = "console-sign-in"
_OWN_PATH = re.compile(rf"{PATH}(?:[/?][\x21-\x7e]*)?", re.ASCII)


class SignIn(forms.SignIn):
    """A sign-in."""

    return_to: str = Field("", max_length=2000, description="The page of the console to open.")


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
    token = await OPERATORS.sign_in(call, email, sent.password, previous=request.token)
    if isinstance(token, Refusal):
        return form(request, return_to, token, email=email)
    return signed_in(request, token, return_to)


async def sign_out(call: Call) -> Answer:
    """End the session."""
    request = ConsoleRequest(call)
    if await request.open_session():
        request.check_form()
        await call.database.write(lambda tx: OPERATORS.end(tx, request.token, call.now_ms))
    return html.redirect(SIGN_IN_PATH, (request.set_cookie(request.cookie_name, "", 0),))


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
    done, taken = request.take_notice() if takes_notice else (None, ())
    return answer(
        request,
        partial(html.page, words=words, package=PACKAGE),
        words,
        PURPOSE,
        refusal,
        notice=notice,
        headers=taken,
        isolated=True,
        action=SIGN_IN_PATH,
        return_to=return_to,
        done=done.text if done is not None else "",
        development=request.development,
        email=email,
    )


def signed_in(request: ConsoleRequest, token: Secret, path: str) -> Answer:
    """Return the redirect to a page, with the cookie of the new session."""
    return html.redirect(path, (request.set_cookie(request.cookie_name, token.reveal()),))
