"""The request of a seller's browser: its session, and whether the seller has signed in from it before."""

from __future__ import annotations

import re
from typing import Any

from paydesk.core.errors import FORM_OUTDATED, Refusal
from paydesk.engine.oauth.consent import authorization
from paydesk.engine.sellers.errors import SESSION_ENDED
from paydesk.engine.sellers.sessions import SELLERS, Session
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.web import html
from paydesk.platform.web.forms import BrowserRequest, Header

SESSION, BROWSER = "paydesk_session", "paydesk_browser"
BROWSER_KNOWN_SECONDS = 365 * 24 * 3600
APPLICATIONS_PATH = "/applications"

_AUTHORIZATION = re.compile(rf"{authorization.PATH}\?[\x21-\x7e]*", re.ASCII)


class SellerRequest(BrowserRequest):
    """A request to one of the sellers' pages."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.session_idle_ms = call.settings.session_idle_minutes * 60_000
        """The time without a request after which a session ends."""
        self.seller_id = 0
        """The seller of the valid session, once it is found."""

    def page(self, template: str, **values: Any) -> Answer:
        """Return a page in the browser's language; `values` are those of `html.page`."""
        return html.page(template, self.texts, package="paydesk.engine.oauth.pages", **values)

    @property
    def session_cookie(self) -> str:
        """The session cookie, valid or not; empty if there is none."""
        return self.cookie(SESSION)

    async def session(self, database: Database) -> Session | None:
        """Return the valid session of this browser, or None."""
        session = await SELLERS.opened(database, self.session_cookie, self.now_ms, idle_ms=self.session_idle_ms)
        self.seller_id = session.seller_id if session is not None else 0
        return session

    async def session_of_form(self, tx: Transaction, purpose: str, token: str) -> Session | Refusal:
        """Return the session in which a form was sent, locked; SESSION_ENDED or FORM_OUTDATED if it is not valid."""
        idle_ms = self.session_idle_ms
        session = await SELLERS.current(tx, self.session_cookie, self.now_ms, idle_ms=idle_ms, locked=True)
        if session is None:
            return SESSION_ENDED.with_reason("no valid session")
        self.seller_id = session.seller_id
        return session if self.is_form_token_valid(purpose, token, SESSION) else form_outdated()

    def is_known_browser(self, email: str) -> bool:
        """Return whether the seller with this e-mail address has signed in from this browser within a year."""
        since, _, token = self.cookie(BROWSER).partition(".")
        if not (since.isascii() and since.isdigit() and len(since) <= 12):
            return False
        is_recent = int(since) + BROWSER_KNOWN_SECONDS > self.now_ms // 1000
        return is_recent and self.is_signed(token, "browser", email, since)

    def signed_in_headers(self, session_cookie: str, email: str) -> tuple[Header, ...]:
        """Return the headers that set the session cookie and mark this browser as known."""
        since = str(self.now_ms // 1000)
        browser = f"{since}.{self.sign('browser', email, since)}"
        return self.set_cookie(SESSION, session_cookie), self.set_cookie(BROWSER, browser, BROWSER_KNOWN_SECONDS)


def form_outdated() -> Refusal:
    """Return the refusal of a form that was not made for this browser's session."""
    return FORM_OUTDATED.with_reason("form token is not of this session")


def safe_return_to(path: str) -> str:
    """Return `path` if it is an authorization request, else the seller's applications; never another site."""
    return path if _AUTHORIZATION.fullmatch(path) else APPLICATIONS_PATH
