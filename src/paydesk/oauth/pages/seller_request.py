"""A browser request of a seller: the session, whether the browser is a known one, and where to return to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from paydesk.oauth.consent import authorization, sessions
from paydesk.oauth.consent.sessions import Session
from paydesk.storage.database import Transaction
from paydesk.web.browser import BrowserRequest, Header

SESSION, BROWSER = "paydesk_session", "paydesk_browser"
BROWSER_KNOWN_SECONDS = 365 * 24 * 3600
APPLICATIONS_PATH = "/applications"

_AUTHORIZATION = re.compile(rf"{authorization.PATH}\?[\x21-\x7e]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class SellerRequest(BrowserRequest):
    """A request to one of the sellers' pages."""

    package: ClassVar[str] = "paydesk.oauth.pages"

    @property
    def session_cookie(self) -> str | None:
        """The session cookie, valid or not."""
        return self.cookie(SESSION)

    async def session(self) -> Session | None:
        """Return the valid session of this browser, or None."""
        return await self.call.database.write(self.session_within) if self.session_cookie is not None else None

    async def session_within(self, tx: Transaction, *, locked: bool = False) -> Session | None:
        """Return the valid session, or None. `locked`: no other transaction can end it before the commit."""
        session = await sessions.current(
            tx, self.session_cookie, self.call.now_ms, idle_ms=self.session_idle_ms, locked=locked
        )
        if session is not None:
            self.call.logged_seller_id = session.seller_id
        return session

    @property
    def session_idle_ms(self) -> int:
        """The time without a request after which a session ends."""
        return self.call.settings.session_idle_minutes * 60_000

    def is_known_browser(self, email: str) -> bool:
        """Return whether the seller with this e-mail address has signed in from this browser within a year."""
        since, _, token = (self.cookie(BROWSER) or "").partition(".")
        if not (since.isascii() and since.isdigit() and len(since) <= 12):
            return False
        is_recent = int(since) + BROWSER_KNOWN_SECONDS > self.call.now_ms // 1000
        return is_recent and self.is_signed(token, "browser", email, since)

    def signed_in_headers(self, session_cookie: str, email: str) -> tuple[Header, ...]:
        """Return the headers that set the session cookie and mark this browser as known."""
        since = str(self.call.now_ms // 1000)
        browser = f"{since}.{self.sign('browser', email, since)}"
        return self.set_cookie(SESSION, session_cookie), self.set_cookie(BROWSER, browser, BROWSER_KNOWN_SECONDS)


def safe_return_to(path: str) -> str:
    """Return `path` if it is an authorization request, else the seller's applications; never another site."""
    return path if _AUTHORIZATION.fullmatch(path) else APPLICATIONS_PATH
