"""`/console/password`: an operator sets a password with a link that is valid once."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from paydesk.console.request import PATH, SIGN_IN_PATH, ConsoleRequest
from paydesk.console.screen import PACKAGE
from paydesk.console.sessions import OPERATORS
from paydesk.core.errors import FORM_OUTDATED, PROPERTY_VALUE, ErrorKind, Refusal
from paydesk.operators.accounts import links
from paydesk.operators.accounts import passwords as operator_passwords
from paydesk.operators.accounts.store import Person
from paydesk.operators.schemas import PASSWORD_CHARACTERS_MAX, PASSWORD_CHARACTERS_MIN
from paydesk.operators.sign_in import page as sign_in
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction
from paydesk.platform.web import html
from paydesk.platform.web.forms import ANONYMOUS
from paydesk.platform.web.language import texts

PURPOSE = "console-password"
LINK_NOT_VALID = ErrorKind(
    "link_not_valid", 410, "This link is not valid: it was used or replaced, or it is older than 24 h."
)


class NewPassword(BaseModel):
    """A new password, and the token of the link."""

    model_config = ConfigDict(extra="forbid")
    INVISIBLE_ALLOWED: ClassVar[frozenset[str]] = frozenset({"password"})

    form_token: str = Field(max_length=100, description="From the page with the form.")
    link: str = Field(max_length=100, repr=False)
    password: str = Field(max_length=4096, repr=False)


async def show(call: Call) -> Answer:
    """Show the form, if the link is valid."""
    return await _form(ConsoleRequest(call), call.query.get("link", ""))


async def change(call: Call) -> Answer:
    """Set the password, end the operator's sessions, and sign the operator in."""
    request, sent = ConsoleRequest(call), call.body
    assert isinstance(sent, NewPassword)
    request.check_origin()
    if not request.is_form_token_valid(PURPOSE, sent.form_token, ANONYMOUS):
        return await _form(request, sent.link, FORM_OUTDATED.with_reason("form token or its cookie is invalid"))
    invited = await call.database.read(lambda tx: links.find(tx, sent.link, call.now_ms))
    if invited is None:
        return await _form(request, sent.link)
    try:
        check_length(sent.password)
        password_hash = await operator_passwords.hashed(sent.password, invited)
    except Refusal as refusal:
        return await _form(request, sent.link, refusal)

    async def work(tx: Transaction) -> Person | None:
        return await operator_passwords.set_by_link(call, tx, sent.link, password_hash)

    if await call.database.write(work) is None:
        return await _form(request, sent.link)
    operator_id, previous = invited.operator_id, request.token
    token = await OPERATORS.open_session(call, operator_id, previous=previous, password_hash=password_hash)
    return html.redirect(PATH) if token is None else sign_in.signed_in(request, token, PATH)


def check_length(password: str) -> None:
    """Refuse a password that is too short or too long. Raises `PROPERTY_VALUE`."""
    if not PASSWORD_CHARACTERS_MIN <= len(password) <= PASSWORD_CHARACTERS_MAX:
        raise PROPERTY_VALUE.with_reason(
            "password too short or too long",
            f"'$.password' - must have {PASSWORD_CHARACTERS_MIN} to {PASSWORD_CHARACTERS_MAX} characters",
        )


def rule_of(refusal: Refusal) -> str:
    """Return the rule that a refused password breaks, as a sentence."""
    detail = next(iter(refusal.details), refusal.public_message)
    return f"The password {detail.rpartition(' - ')[2]}."


async def _form(request: ConsoleRequest, link: str, refusal: Refusal | None = None) -> Answer:
    call, words = request.call, texts("en")
    invited = await call.database.read(lambda tx: links.find(tx, link, call.now_ms))
    if invited is None:
        refusal = LINK_NOT_VALID.with_reason("unknown, used or expired link")
    cookie, headers = request.anonymous_cookie()
    notice = ""
    if refusal is not None:
        notice = rule_of(refusal) if refusal.kind is PROPERTY_VALUE else refusal.public_message
    shown = html.page(
        "sign_in/password.html",
        words,
        package=PACKAGE,
        status=200 if refusal is None else refusal.kind.status,
        isolated=True,
        scripts=True,
        headers=headers,
        invited=invited,
        notice=notice,
        code=refusal.kind.code if refusal is not None else "",
        form_token=request.form_token(PURPOSE, cookie),
        link=link,
        # With the link, so that the page of a refused password can be opened again.
        action=f"{links.PATH}?{links.PARAMETER}={quote(link, safe='')}",
        characters_min=PASSWORD_CHARACTERS_MIN,
        sign_in=SIGN_IN_PATH,
    )
    return Answer(shown.status, shown.body, shown.headers, shown.media_type, refusal)
