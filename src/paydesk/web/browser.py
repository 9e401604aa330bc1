"""What a browser brings with a request: its language, its cookies, and the proof that a form of ours was sent from it.

A form's token is an HMAC under the server key over what the form is for and a cookie: the session's, or before that one
of the visit's own. A site elsewhere can read neither.
"""

from __future__ import annotations

import hmac
import re
import urllib.parse
from dataclasses import dataclass, field

from paydesk.core.errors import FORBIDDEN
from paydesk.core.secrets import new_hex
from paydesk.oauth.consent import authorization, sessions
from paydesk.oauth.consent.sessions import Session
from paydesk.operation import Call
from paydesk.storage.database import Transaction
from paydesk.web.language import Texts, choose, texts

SESSION, VISIT, BROWSER = "paydesk_session", "paydesk_visit", "paydesk_browser"
BROWSER_KNOWN_SECONDS = 365 * 24 * 3600
APPLICATIONS_PATH = "/applications"

_VISIT_COOKIE = re.compile(r"[0-9a-f]{64}", re.ASCII)
_AUTHORIZATION = re.compile(rf"{authorization.PATH}\?[\x21-\x7e]*", re.ASCII)
Header = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Visit:
    """A request as a page sees it."""

    call: Call
    words: Texts
    cookies: dict[str, str] = field(repr=False)

    @property
    def session_cookie(self) -> str | None:
        """The cookie of a session, good or not."""
        return self.cookies.get(self._name(SESSION))

    async def session(self) -> Session | None:
        """Who is signed in, or None."""
        return await self.call.database.write(self.session_within) if self.session_cookie is not None else None

    async def session_within(self, tx: Transaction, *, locked: bool = False) -> Session | None:
        """Return the session, or None; `locked`: nothing ends it before the transaction does."""
        session = await sessions.current(
            tx, self.session_cookie, self.call.now_ms, idle_ms=self.session_idle_ms, locked=locked
        )
        if session is not None:
            self.call.logged_seller_id = session.seller_id
        return session

    @property
    def session_idle_ms(self) -> int:
        """How long a session may be left unused."""
        return self.call.settings.session_idle_minutes * 60_000

    def visit_cookie(self) -> tuple[str, tuple[Header, ...]]:
        """The cookie that a form before sign-in hangs on, and the header that sets it where there is none yet."""
        there = self.cookies.get(self._name(VISIT), "")
        if _VISIT_COOKIE.fullmatch(there):
            return there, ()
        made = new_hex(256)
        return made, (self.set_cookie(VISIT, made),)

    def form_token(self, purpose: str, cookie: str) -> str:
        """What a form for `purpose` carries, good beside this cookie alone."""
        return self._signed("form", purpose, cookie)

    def is_ours(self, purpose: str, token: str, name: str) -> bool:
        """Whether a form's token is the one that goes with the cookie of this name."""
        cookie = self.cookies.get(self._name(name))
        return cookie is not None and self._is_signed(token, "form", purpose, cookie)

    def knows(self, email: str) -> bool:
        """Whether the seller of this address has signed in from this browser within the year."""
        since, _, token = self.cookies.get(self._name(BROWSER), "").partition(".")
        if not (since.isascii() and since.isdigit() and len(since) <= 12):
            return False
        is_recent = int(since) + BROWSER_KNOWN_SECONDS > self.call.now_ms // 1000
        return is_recent and self._is_signed(token, "browser", email, since)

    def signed_in(self, session_cookie: str, email: str) -> tuple[Header, ...]:
        """The headers that keep a session, and make this browser a known one."""
        since = str(self.call.now_ms // 1000)
        known = f"{since}.{self._signed('browser', email, since)}"
        return self.set_cookie(SESSION, session_cookie), self.set_cookie(BROWSER, known, BROWSER_KNOWN_SECONDS)

    def set_cookie(self, name: str, value: str, seconds: int | None = None) -> Header:
        """The header that sets a cookie: until the browser is closed, or for so long; 0 takes it away."""
        secure = "; Secure" if self._is_secure else ""
        age = "" if seconds is None else f"; Max-Age={seconds}"
        return "set-cookie", f"{self._name(name)}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{age}"

    def check_origin(self) -> None:
        """Refuse a form that a browser says was sent from elsewhere. Raises FORBIDDEN.

        Pages with `Referrer-Policy: no-referrer` send `Origin: null`: that alone says nothing.
        """
        if self.call.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise FORBIDDEN.with_reason("a form of another site")
        origin = self.call.headers.get("origin", "null")
        if origin != "null" and origin.lower() not in self._own_origins():
            raise FORBIDDEN.with_reason("a form of another origin")

    def return_to(self, wanted: str) -> str:
        """Where to go on: the authorization that was begun, or the seller's applications; never another site."""
        return wanted if _AUTHORIZATION.fullmatch(wanted) else APPLICATIONS_PATH

    @property
    def _is_secure(self) -> bool:
        return (self.call.settings.public_url or "").startswith("https:")

    def _own_origins(self) -> tuple[str, ...]:
        public_url = (self.call.settings.public_url or "").lower()
        scheme = urllib.parse.urlsplit(public_url).scheme or "http"
        # The names that `Host` may carry were checked.
        return public_url or "null", f"{scheme}://{self.call.headers.get('host', '').lower()}"

    def _name(self, name: str) -> str:
        return f"__Host-{name}" if self._is_secure else name

    def _signed(self, *parts: str) -> str:
        keys = self.call.keys
        return f"{keys.active}-{keys.derive(keys.active, 'pages', *parts).hex()}"

    def _is_signed(self, token: str, *parts: str) -> bool:
        version, _, given = token.partition("-")
        keys = self.call.keys
        if version not in map(str, keys.versions):
            return False
        return hmac.compare_digest(given.encode(), keys.derive(int(version), "pages", *parts).hex().encode())


def visit(call: Call) -> Visit:
    """What the browser of this call brings."""
    words = texts(choose(call.headers.get("accept-language", "")))
    return Visit(call, words, _cookies(call.headers.get("cookie", "")))


def _cookies(header: str) -> dict[str, str]:
    cookies: dict[str, str] = {}
    for part in header.split(";"):
        name, _, value = part.partition("=")
        # Of two of one name the first is the more special one (RFC 6265 section 5.4).
        cookies.setdefault(name.strip(), value.strip())
    return cookies
