"""`/applications`: the applications that a seller has authorized, each with a button to withdraw."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from paydesk.core.errors import Refusal
from paydesk.oauth import authorizations, scopes
from paydesk.oauth.consent.errors import FORM_OUTDATED, SESSION_ENDED
from paydesk.oauth.pages import sign_in
from paydesk.oauth.pages.forms import Withdrawal
from paydesk.oauth.pages.seller_request import APPLICATIONS_PATH, SESSION, SellerRequest
from paydesk.operation import Answer, Call
from paydesk.storage.database import Transaction
from paydesk.web import html

WITHDRAW = "withdraw"
LISTED_MAX = 500

# Selects a seller's valid authorizations with their applications, the newest first.
LIST = """SELECT a.authorization_id, p.name, a.scope, a.created_ms
    FROM authorizations a JOIN applications p ON p.application_id = a.application_id
    WHERE a.seller_id = $1 AND a.withdrawn_ms IS NULL
    ORDER BY a.authorization_id DESC LIMIT $2"""


@dataclass(frozen=True, slots=True)
class AuthorizedApplication:
    """A valid authorization with the name of its application."""

    authorization_id: str
    application: str
    scope: str
    created_ms: int

    @property
    def scopes(self) -> list[str]:
        """Its scopes in the order of the page."""
        return scopes.for_display(self.scope)

    @property
    def since(self) -> datetime:
        """When the seller gave the authorization."""
        return datetime.fromtimestamp(self.created_ms / 1000, UTC)


async def show(call: Call) -> Answer:
    """List the applications that the signed-in seller has authorized."""
    request = SellerRequest.of(call)
    session = await request.session()
    if session is None:
        return sign_in.form(request, APPLICATIONS_PATH, notice="ended" if request.session_cookie else "")
    authorized = await call.database.read(partial(_find_authorized, seller_id=session.seller_id))
    cookie = request.session_cookie or ""
    return request.page(
        "applications.html",
        isolated=True,
        authorized=authorized[:LISTED_MAX],
        listed_max=LISTED_MAX if len(authorized) > LISTED_MAX else 0,
        seller=session,
        return_to=APPLICATIONS_PATH,
        form_token=request.form_token(WITHDRAW, cookie),
        sign_out_token=request.form_token(sign_in.SIGN_OUT, cookie),
    )


async def withdraw(call: Call) -> Answer:
    """Withdraw one authorization; withdrawing it again has no effect."""
    request, form = SellerRequest.of(call), call.body
    assert isinstance(form, Withdrawal)
    request.check_origin()
    refusal = await call.database.write(partial(_withdraw, request=request, form=form))
    if refusal is not None and refusal.kind is SESSION_ENDED:
        return sign_in.form(request, APPLICATIONS_PATH, refusal=refusal)
    if refusal is not None:
        raise sign_in.with_retry_link(refusal, APPLICATIONS_PATH)
    return html.redirect(APPLICATIONS_PATH)


async def _withdraw(tx: Transaction, request: SellerRequest, form: Withdrawal) -> Refusal | None:
    now_ms = request.call.now_ms
    session = await request.session_within(tx, locked=True)
    if session is None:
        return SESSION_ENDED.with_reason("no valid session")
    if not request.is_form_token_valid(WITHDRAW, form.form_token, SESSION):
        return FORM_OUTDATED.with_reason("form token is not of this session")
    await authorizations.withdraw(tx, seller_id=session.seller_id, authorization_id=form.grant, now_ms=now_ms)
    return None


async def _find_authorized(tx: Transaction, seller_id: int) -> list[AuthorizedApplication]:
    return [AuthorizedApplication(*row) for row in await tx.all(LIST, seller_id, LISTED_MAX + 1)]
