"""The request of a browser: its language and cookies, and the checks of where a form came from.

A form token is an HMAC under the server key over the purpose of the form and a cookie: that of a session, or before
sign-in an anonymous one. Another site can read neither.
"""

from __future__ import annotations

import hmac
import re
import urllib.parse

from paydesk.core.errors import FORBIDDEN
from paydesk.core.secrets import new_hex
from paydesk.platform.operation import Call
from paydesk.platform.web import language

ANONYMOUS = "paydesk_visit"
BACKGROUND = "x-paydesk-background"
"""The header of requests with which an open page updates itself: they do not count as use of the session."""
_ANONYMOUS_COOKIE = re.compile(r"[0-9a-f]{64}", re.ASCII)
Header = tuple[str, str]


class BrowserRequest:
    """A request of a browser, with the texts in the language that it prefers."""

    def __init__(self, call: Call) -> None:
        self.texts = language.texts(language.choose(call.headers.get("accept-language", "")))
        self.now_ms = call.now_ms
        self._headers = call.headers
        self._keys = call.keys
        self._public_url = call.settings.public_url or ""
        self._has_both_schemes = call.shared.development
        self._cookies = _cookies(call.headers.get("cookie", ""))

    # Forms. ----------------------------------------------------------------------------------------------------------

    def form_token(self, purpose: str, cookie: str) -> str:
        """Return the token of a form for `purpose`, valid only with this cookie."""
        return self.sign("form", purpose, cookie)

    def is_form_token_valid(self, purpose: str, token: str, cookie_name: str) -> bool:
        """Return whether the token was made for this purpose and the browser's cookie of this name."""
        cookie = self.cookie(cookie_name)
        return bool(cookie) and self.is_signed(token, "form", purpose, cookie)

    def check_origin(self) -> None:
        """Refuse a form that was sent from another site, by Sec-Fetch-Site and Origin. Raises FORBIDDEN.

        Pages with `Referrer-Policy: no-referrer` send `Origin: null`, so that value is accepted.
        """
        if self._headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise FORBIDDEN.with_reason("a form of another site")
        public_url = self._public_url.lower()
        # The server has checked Host against the accepted names. `paydesk dev` may listen for http and https.
        schemes = ("http", "https") if self._has_both_schemes else (urllib.parse.urlsplit(public_url).scheme or "http",)
        host = self._headers.get("host", "").lower()
        own = "null", public_url or "null", *(f"{scheme}://{host}" for scheme in schemes)
        if self._headers.get("origin", "null").lower() not in own:
            raise FORBIDDEN.with_reason("a form of another origin")

    def sign(self, *parts: str) -> str:
        """Return a signature over `parts` by the active server key, with the version of the key."""
        return f"{self._keys.active}-{self._keys.derive(self._keys.active, 'pages', *parts).hex()}"

    def is_signed(self, token: str, *parts: str) -> bool:
        """Return whether `token` is the signature over `parts` by one of the server keys."""
        version, _, signature = token.partition("-")
        if version not in map(str, self._keys.versions):
            return False
        expected = self._keys.derive(int(version), "pages", *parts).hex()
        return hmac.compare_digest(signature.encode(), expected.encode())

    # Cookies. --------------------------------------------------------------------------------------------------------

    def cookie(self, name: str) -> str:
        """Return the value of a cookie that this service set, or an empty string."""
        return self._cookies.get(self._full_name(name), "")

    def set_cookie(self, name: str, value: str, seconds: int | None = None) -> Header:
        """Return the header that sets a cookie for `seconds`, or until the browser closes; 0 deletes it."""
        secure = "; Secure" if self._is_secure else ""
        age = "" if seconds is None else f"; Max-Age={seconds}"
        return "set-cookie", f"{self._full_name(name)}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{age}"

    def anonymous_cookie(self) -> tuple[str, tuple[Header, ...]]:
        """Return the cookie that form tokens before sign-in are bound to, and the header that sets a new cookie."""
        current = self.cookie(ANONYMOUS)
        if _ANONYMOUS_COOKIE.fullmatch(current):
            return current, ()
        created = new_hex(256)
        return created, (self.set_cookie(ANONYMOUS, created),)

    @property
    def _is_secure(self) -> bool:
        return self._public_url.startswith("https:")

    def _full_name(self, name: str) -> str:
        return f"__Host-{name}" if self._is_secure else name


def _cookies(header: str) -> dict[str, str]:
    cookies: dict[str, str] = {}
    for part in header.split(";"):
        name, _, value = part.partition("=")
        # If two cookies have one name, the first has the longer path (RFC 6265 section 5.4).
        cookies.setdefault(name.strip(), value.strip())
    return cookies
