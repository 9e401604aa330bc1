"""`/applications`: which applications act for the seller, and taking that back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from paydesk.core.errors import Refusal
from paydesk.oauth.consent import withdrawal
from paydesk.oauth.consent.errors import FORM_OUTDATED, SESSION_ENDED
from paydesk.oauth.pages import sign_in
from paydesk.oauth.pages.forms import Withdrawal
from paydesk.operation import Answer, Call
from paydesk.storage.database import Transaction
from paydesk.web import html
from paydesk.web.browser import APPLICATIONS_PATH, SESSION, Visit, visit

WITHDRAW = "withdraw"
LISTED_MAX = 500

# Out: the authorizations of a seller that stand, with their applications, the newest first.
STANDING = """SELECT a.authorization_id, p.name, a.scope, a.created_ms
    FROM authorizations a JOIN applications p ON p.application_id = a.application_id
    WHERE a.seller_id = $1 AND a.withdrawn_ms IS NULL
    ORDER BY a.authorization_id DESC LIMIT $2"""


@dataclass(frozen=True, slots=True)
class Standing:
    """An authorization that stands."""

    authorization_id: str
    application: str
    scope: str
    created_ms: int

    @property
    def scopes(self) -> list[str]:
        """Its scopes, one by one, as a page lists them."""
        return html.scopes(self.scope)

    @property
    def since(self) -> datetime:
        """When it was given."""
        return datetime.fromtimestamp(self.created_ms / 1000, UTC)


async def show(call: Call) -> Answer:
    """Who acts for whoever is signed in."""
    seen = visit(call)
    session = await seen.session()
    if session is None:
        return sign_in.form(seen, APPLICATIONS_PATH, notice="ended" if seen.session_cookie else "")
    standing = await call.database.read(partial(_standing, seller_id=session.seller_id))
    cookie = seen.session_cookie or ""
    return html.page(
        "applications.html",
        seen.words,
        isolated=True,
        grants=standing[:LISTED_MAX],
        listed_max=LISTED_MAX if len(standing) > LISTED_MAX else 0,
        seller=session,
        return_to=APPLICATIONS_PATH,
        form_token=seen.form_token(WITHDRAW, cookie),
        sign_out_token=seen.form_token(sign_in.SIGN_OUT, cookie),
    )


async def withdraw(call: Call) -> Answer:
    """Take one back; what was taken back before stays so."""
    seen, sent = visit(call), call.body
    assert isinstance(sent, Withdrawal)
    seen.check_origin()
    refusal = await call.database.write(partial(_withdraw, seen=seen, sent=sent))
    if refusal is not None and refusal.kind is SESSION_ENDED:
        return sign_in.form(seen, APPLICATIONS_PATH, refusal=refusal)
    if refusal is not None:
        raise sign_in.with_another_try(refusal, APPLICATIONS_PATH)
    return html.redirect(APPLICATIONS_PATH)


async def _withdraw(tx: Transaction, seen: Visit, sent: Withdrawal) -> Refusal | None:
    now_ms = seen.call.now_ms
    session = await seen.session_within(tx, locked=True)
    if session is None:
        return SESSION_ENDED.with_reason("no session that is good")
    if not seen.is_ours(WITHDRAW, sent.form_token, SESSION):
        return FORM_OUTDATED.with_reason("form token is not of this session")
    await withdrawal.withdraw(tx, seller_id=session.seller_id, authorization_id=sent.grant, now_ms=now_ms)
    return None


async def _standing(tx: Transaction, seller_id: int) -> list[Standing]:
    return [Standing(*row) for row in await tx.all(STANDING, seller_id, LISTED_MAX + 1)]
