"""A request of a browser: its language, its cookies, and the check that a form was sent from a page of this service.

A form token is an HMAC under the server key over the purpose of the form and a cookie: that of the session, or before
sign-in an anonymous one. Another site can read neither.
"""

from __future__ import annotations

import hmac
import re
import urllib.parse
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from paydesk.core.errors import FORBIDDEN
from paydesk.core.secrets import new_hex
from paydesk.operation import Answer, Call
from paydesk.web import html, language
from paydesk.web.language import Texts

ANONYMOUS = "paydesk_visit"
_ANONYMOUS_COOKIE = re.compile(r"[0-9a-f]{64}", re.ASCII)
Header = tuple[str, str]


@dataclass(frozen=True, slots=True)
class BrowserRequest:
    """A call with its parsed cookies and the texts in the language that the browser prefers."""

    package: ClassVar[str] = html.SHARED
    """The package with the templates of its pages."""

    call: Call
    texts: Texts
    cookies: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, call: Call) -> Self:
        """Return the browser request of a call."""
        texts = language.texts(language.choose(call.headers.get("accept-language", "")))
        return cls(call, texts, _cookies(call.headers.get("cookie", "")))

    def page(self, template: str, **values: Any) -> Answer:
        """Return a page in the browser's language; `values` are those of `html.page`."""
        return html.page(template, self.texts, package=self.package, **values)

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie that this service set, or None."""
        return self.cookies.get(self._full_name(name))

    def set_cookie(self, name: str, value: str, seconds: int | None = None) -> Header:
        """Return the header that sets a cookie for `seconds`, or until the browser closes; 0 deletes it."""
        secure = "; Secure" if self._is_secure else ""
        age = "" if seconds is None else f"; Max-Age={seconds}"
        return "set-cookie", f"{self._full_name(name)}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{age}"

    def anonymous_cookie(self) -> tuple[str, tuple[Header, ...]]:
        """Return the cookie that form tokens before sign-in are bound to, and the header that sets a new one."""
        current = self.cookie(ANONYMOUS) or ""
        if _ANONYMOUS_COOKIE.fullmatch(current):
            return current, ()
        created = new_hex(256)
        return created, (self.set_cookie(ANONYMOUS, created),)

    def form_token(self, purpose: str, cookie: str) -> str:
        """Return the token of a form for `purpose`, valid only with this cookie."""
        return self.sign("form", purpose, cookie)

    def is_form_token_valid(self, purpose: str, token: str, cookie_name: str) -> bool:
        """Return whether the token was made for this purpose and the browser's cookie of this name."""
        cookie = self.cookie(cookie_name)
        return cookie is not None and self.is_signed(token, "form", purpose, cookie)

    def check_origin(self) -> None:
        """Refuse a form that was sent from another site, by Sec-Fetch-Site and Origin. Raises FORBIDDEN.

        Pages with `Referrer-Policy: no-referrer` send `Origin: null`, so that value is accepted.
        """
        if self.call.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise FORBIDDEN.with_reason("a form of another site")
        origin = self.call.headers.get("origin", "null")
        if origin != "null" and origin.lower() not in self._own_origins():
            raise FORBIDDEN.with_reason("a form of another origin")

    def sign(self, *parts: str) -> str:
        """Return a signature over `parts` by the active server key, with the version of the key."""
        keys = self.call.keys
        return f"{keys.active}-{keys.derive(keys.active, 'pages', *parts).hex()}"

    def is_signed(self, token: str, *parts: str) -> bool:
        """Return whether `token` is the signature over `parts` by one of the server keys."""
        version, _, signature = token.partition("-")
        keys = self.call.keys
        if version not in map(str, keys.versions):
            return False
        return hmac.compare_digest(signature.encode(), keys.derive(int(version), "pages", *parts).hex().encode())

    @property
    def _is_secure(self) -> bool:
        return (self.call.settings.public_url or "").startswith("https:")

    def _own_origins(self) -> tuple[str, ...]:
        public_url = (self.call.settings.public_url or "").lower()
        scheme = urllib.parse.urlsplit(public_url).scheme or "http"
        # The server has checked Host against the accepted names.
        return public_url or "null", f"{scheme}://{self.call.headers.get('host', '').lower()}"

    def _full_name(self, name: str) -> str:
        return f"__Host-{name}" if self._is_secure else name


def _cookies(header: str) -> dict[str, str]:
    cookies: dict[str, str] = {}
    for part in header.split(";"):
        name, _, value = part.partition("=")
        # Of two cookies with one name the first has the longer path (RFC 6265 section 5.4).
        cookies.setdefault(name.strip(), value.strip())
    return cookies
