"""`/applications`: the applications that a seller has authorized, each with a button to withdraw."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from paydesk.core.errors import Refusal
from paydesk.engine.oauth import authorizations, scopes
from paydesk.engine.oauth.pages import sign_in
from paydesk.engine.oauth.pages.forms import Withdrawal
from paydesk.engine.oauth.pages.seller_request import APPLICATIONS_PATH, SellerRequest
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction
from paydesk.platform.web import html

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
        """The time of the seller's consent."""
        return datetime.fromtimestamp(self.created_ms / 1000, UTC)


async def show(call: Call) -> Answer:
    """List the applications that the seller has authorized."""
    request = SellerRequest(call)
    session = await request.session(call.database)
    call.logged_seller_id = request.seller_id
    if session is None:
        return sign_in.form(request, APPLICATIONS_PATH, notice="ended" if request.session_cookie else "")
    rows = await call.database.read(lambda tx: tx.all(LIST, session.seller_id, LISTED_MAX + 1))
    return request.page(
        "applications.html",
        isolated=True,
        authorized=[AuthorizedApplication(*row) for row in rows[:LISTED_MAX]],
        listed_max=LISTED_MAX if len(rows) > LISTED_MAX else 0,
        seller=session,
        return_to=APPLICATIONS_PATH,
        form_token=request.form_token(WITHDRAW, request.session_cookie),
        sign_out_token=request.form_token(sign_in.SIGN_OUT, request.session_cookie),
    )


async def withdraw(call: Call) -> Answer:
    """Withdraw an authorization; withdrawing it again has no effect."""
    request, form, now_ms = SellerRequest(call), call.body, call.now_ms
    assert isinstance(form, Withdrawal)
    request.check_origin()

    async def work(tx: Transaction) -> Refusal | None:
        session = await request.session_of_form(tx, WITHDRAW, form.form_token)
        if isinstance(session, Refusal):
            return session
        await authorizations.withdraw(tx, seller_id=session.seller_id, authorization_id=form.grant, now_ms=now_ms)
        return None

    refusal = await call.database.write(work)
    call.logged_seller_id = request.seller_id
    if refusal is not None:
        return await sign_in.refused(request, call.database, refusal, APPLICATIONS_PATH)
    call.database.signals.hint("grants")
    return html.redirect(APPLICATIONS_PATH)
