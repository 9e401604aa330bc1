"""The request of a seller's browser: its language, cookies and session, and the check of where a form came from.

A form token is an HMAC under the server key over the purpose of the form and a cookie: that of the session, or before
sign-in an anonymous one. Another site can read neither.
"""

from __future__ import annotations

import hmac
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paydesk.core.errors import FORBIDDEN, Refusal
from paydesk.core.keys import Keys
from paydesk.core.secrets import new_hex
from paydesk.oauth.consent import authorization, sessions
from paydesk.oauth.consent.sessions import Session
from paydesk.oauth.errors import FORM_OUTDATED, SESSION_ENDED
from paydesk.operation import Answer, Call
from paydesk.storage.database import Database, Transaction
from paydesk.web import html, language
from paydesk.web.language import Texts

ANONYMOUS, SESSION, BROWSER = "paydesk_visit", "paydesk_session", "paydesk_browser"
BROWSER_KNOWN_SECONDS = 365 * 24 * 3600
APPLICATIONS_PATH = "/applications"

_ANONYMOUS_COOKIE = re.compile(r"[0-9a-f]{64}", re.ASCII)
_AUTHORIZATION = re.compile(rf"{authorization.PATH}\?[\x21-\x7e]*", re.ASCII)
Header = tuple[str, str]


@dataclass(slots=True)
class SellerRequest:
    """A request to one of the sellers' pages, with the texts in the language that the browser prefers."""

    headers: Mapping[str, str] = field(repr=False)
    cookies: Mapping[str, str] = field(repr=False)
    texts: Texts
    keys: Keys
    public_url: str
    now_ms: int
    session_idle_ms: int
    """The time without a request after which a session ends."""
    seller_id: int = 0
    """The seller of the valid session, once it is found."""

    @classmethod
    def of(cls, call: Call) -> SellerRequest:
        """Return the request of a call."""
        headers, settings = call.headers, call.settings
        texts = language.texts(language.choose(headers.get("accept-language", "")))
        idle_ms = settings.session_idle_minutes * 60_000
        cookies = _cookies(headers.get("cookie", ""))
        return cls(headers, cookies, texts, call.keys, settings.public_url or "", call.now_ms, idle_ms)

    def page(self, template: str, **values: Any) -> Answer:
        """Return a page in the browser's language; `values` are those of `html.page`."""
        return html.page(template, self.texts, package="paydesk.oauth.pages", **values)

    # The session, and whether the browser is known. ------------------------------------------------------------------

    @property
    def session_cookie(self) -> str:
        """The session cookie, valid or not; empty if there is none."""
        return self.cookie(SESSION)

    async def session(self, database: Database) -> Session | None:
        """Return the valid session of this browser, or None."""
        return await database.write(self.session_within) if self.session_cookie else None

    async def session_within(self, tx: Transaction, *, locked: bool = False) -> Session | None:
        """Return the valid session, or None. `locked`: no other transaction can end it before the commit."""
        session = await sessions.current(
            tx, self.session_cookie, self.now_ms, idle_ms=self.session_idle_ms, locked=locked
        )
        if session is not None:
            self.seller_id = session.seller_id
        return session

    async def session_of_form(self, tx: Transaction, purpose: str, token: str) -> Session | Refusal:
        """Return the session in which a form was sent, locked; SESSION_ENDED or FORM_OUTDATED if it is not valid."""
        session = await self.session_within(tx, locked=True)
        if session is None:
            return SESSION_ENDED.with_reason("no valid session")
        return session if self.is_form_token_valid(purpose, token, SESSION) else form_outdated()

    def is_known_browser(self, email: str) -> bool:
        """Return whether the seller with this e-mail address has signed in from this browser within a year."""
        since, _, token = self.cookie(BROWSER).partition(".")
        if not (since.isascii() and since.isdigit() and len(since) <= 12):
            return False
        is_recent = int(since) + BROWSER_KNOWN_SECONDS > self.now_ms // 1000
        return is_recent and self._is_signed(token, "browser", email, since)

    def signed_in_headers(self, session_cookie: str, email: str) -> tuple[Header, ...]:
        """Return the headers that set the session cookie and mark this browser as known."""
        since = str(self.now_ms // 1000)
        browser = f"{since}.{self._sign('browser', email, since)}"
        return self.set_cookie(SESSION, session_cookie), self.set_cookie(BROWSER, browser, BROWSER_KNOWN_SECONDS)

    # Forms. ----------------------------------------------------------------------------------------------------------

    def form_token(self, purpose: str, cookie: str) -> str:
        """Return the token of a form for `purpose`, valid only with this cookie."""
        return self._sign("form", purpose, cookie)

    def is_form_token_valid(self, purpose: str, token: str, cookie_name: str) -> bool:
        """Return whether the token was made for this purpose and the browser's cookie of this name."""
        cookie = self.cookie(cookie_name)
        return bool(cookie) and self._is_signed(token, "form", purpose, cookie)

    def check_origin(self) -> None:
        """Refuse a form that was sent from another site, by Sec-Fetch-Site and Origin. Raises FORBIDDEN.

        Pages with `Referrer-Policy: no-referrer` send `Origin: null`, so that value is accepted.
        """
        if self.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise FORBIDDEN.with_reason("a form of another site")
        public_url = self.public_url.lower()
        scheme = urllib.parse.urlsplit(public_url).scheme or "http"
        # The server has checked Host against the accepted names.
        own = "null", public_url or "null", f"{scheme}://{self.headers.get('host', '').lower()}"
        if self.headers.get("origin", "null").lower() not in own:
            raise FORBIDDEN.with_reason("a form of another origin")

    def _sign(self, *parts: str) -> str:
        """Return a signature over `parts` by the active server key, with the version of the key."""
        return f"{self.keys.active}-{self.keys.derive(self.keys.active, 'pages', *parts).hex()}"

    def _is_signed(self, token: str, *parts: str) -> bool:
        """Return whether `token` is the signature over `parts` by one of the server keys."""
        version, _, signature = token.partition("-")
        if version not in map(str, self.keys.versions):
            return False
        expected = self.keys.derive(int(version), "pages", *parts).hex()
        return hmac.compare_digest(signature.encode(), expected.encode())

    # Cookies. --------------------------------------------------------------------------------------------------------

    def cookie(self, name: str) -> str:
        """Return the value of a cookie that this service set, or an empty string."""
        return self.cookies.get(self._full_name(name), "")

    def set_cookie(self, name: str, value: str, seconds: int | None = None) -> Header:
        """Return the header that sets a cookie for `seconds`, or until the browser closes; 0 deletes it."""
        secure = "; Secure" if self._is_secure else ""
        age = "" if seconds is None else f"; Max-Age={seconds}"
        return "set-cookie", f"{self._full_name(name)}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{age}"

    def anonymous_cookie(self) -> tuple[str, tuple[Header, ...]]:
        """Return the cookie that form tokens before sign-in are bound to, and the header that sets a new one."""
        current = self.cookie(ANONYMOUS)
        if _ANONYMOUS_COOKIE.fullmatch(current):
            return current, ()
        created = new_hex(256)
        return created, (self.set_cookie(ANONYMOUS, created),)

    @property
    def _is_secure(self) -> bool:
        return self.public_url.startswith("https:")

    def _full_name(self, name: str) -> str:
        return f"__Host-{name}" if self._is_secure else name


def _cookies(header: str) -> dict[str, str]:
    cookies: dict[str, str] = {}
    for part in header.split(";"):
        name, _, value = part.partition("=")
        # Of two cookies with one name the first has the longer path (RFC 6265 section 5.4).
        cookies.setdefault(name.strip(), value.strip())
    return cookies


def form_outdated() -> Refusal:
    """Return the refusal of a form that was not made for this browser's session."""
    return FORM_OUTDATED.with_reason("form token is not of this session")


def safe_return_to(path: str) -> str:
    """Return `path` if it is an authorization request, else the seller's applications; never another site."""
    return path if _AUTHORIZATION.fullmatch(path) else APPLICATIONS_PATH
