"""Pages as answers: the templates filled in, and the headers that every page and every redirect carries."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from paydesk.core.errors import Refusal
from paydesk.oauth.scopes import OFFLINE_ACCESS, READ, WRITE, includes
from paydesk.operation import Answer
from paydesk.web.language import Texts, choose, texts

if TYPE_CHECKING:
    from jinja2 import Environment

HTML = "text/html; charset=utf-8"
ASSETS_PATH = "/pages/assets/"
ASSETS = {"pages.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}
AGAIN = "again"
"""Among a refusal's `extra`: where its page leads for another try, a path of this service."""

POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"
_BARE = (
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
)
_ISOLATED = ("cross-origin-opener-policy", "same-origin")
_PRINTABLE = "!#$%&'()*+,-./:;=?@[]_~"
Headers = tuple[tuple[str, str], ...]


def page(
    template: str,
    words: Texts,
    *,
    status: int = 200,
    headers: Headers = (),
    leads_away: bool = False,
    isolated: bool = False,
    **values: Any,
) -> Answer:
    """A page; `leads_away` where the answer to its form sends the browser to an application.

    `isolated`: the page cuts the browser's tie to the window that opened it. No page or redirect on the way from an
    application and back may do that: the application would lose a popup that it opened for the authorization, and the
    popup its `window.opener`.

    Chromium and Safari hold every redirect that follows a form against form-action, those of the application's own
    too, which nobody here can know: a policy for them would end in a button that does nothing.
    """
    body = _environment().get_template(template).render(t=words, asset=asset_path, **values)
    own = (
        ("content-security-policy", POLICY if leads_away else f"{POLICY}; form-action 'self'"),
        ("content-language", words.language),
        ("vary", "accept-language, cookie"),
        *_BARE,
        *((_ISOLATED,) if isolated else ()),
    )
    return Answer(status, body, (*own, *headers), HTML)


def redirect(location: str, headers: Headers = ()) -> Answer:
    """303, so that whatever was sent is not sent on."""
    quoted = urllib.parse.quote(location, safe=_PRINTABLE)
    return Answer(303, None, (("location", quoted), *_BARE, *headers), HTML)


def error_page(refusal: Refusal, headers: Mapping[str, str]) -> Answer:
    """The page of a refusal, in the language that the request's `headers` ask for."""
    words = texts(choose(headers.get("accept-language", "")))
    code = refusal.kind.code
    name = code if f"error.{code}.title" in words else _GENERAL[refusal.kind.status >= 500]
    values = {"minutes": 0, **refusal.extra}
    return page(
        "error.html",
        words,
        status=refusal.kind.status,
        title=words(f"error.{name}.title"),
        text=words(f"error.{name}.text", **values),
        again=values.get(AGAIN),
        refusal=refusal,
    )


_SCOPES = (READ, WRITE, OFFLINE_ACCESS)
_GENERAL = {False: "bad_request", True: "internal_error"}


def scopes(scope: str) -> list[str]:
    """The scopes of a stored string as a page lists them: what may be done comes before for how long."""
    return [name for name in _SCOPES if includes(scope, name)]


@cache
def asset_path(name: str) -> str:
    """The address of a style sheet or a picture, which changes with its content."""
    return f"{ASSETS_PATH}{name}?v={sha256(asset(name)).hexdigest()[:12]}"


@cache
def asset(name: str) -> bytes:
    """The content of one of the `ASSETS`; the icon is the one of the docs."""
    package = "paydesk.http" if name == "icon.svg" else "paydesk.web"
    return files(package).joinpath("static", name).read_bytes()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("paydesk.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
