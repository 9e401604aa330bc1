"""HTML pages and redirects as answers, their Jinja environment, and the headers that all of them have."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from paydesk.core.errors import Refusal
from paydesk.operation import Answer, Call, Operation, Surface
from paydesk.web.language import Texts, choose, texts

if TYPE_CHECKING:
    from jinja2 import Environment

SHARED = "paydesk.web"
"""The package with the templates that all pages share."""
HTML = "text/html; charset=utf-8"
ASSETS_PATH = "/pages/assets/"
ASSET_SECONDS = 365 * 24 * 3600
ASSETS = {"pages.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}
AGAIN = "again"
"""The key in a refusal's `extra` of the path at which the error page offers to start again."""

POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"
_HEADERS = (
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
)
_ISOLATED = ("cross-origin-opener-policy", "same-origin")
_PRINTABLE = "!#$%&'()*+,-./:;=?@[]_~"
Headers = tuple[tuple[str, str], ...]


@cache
def environment(package: str = SHARED) -> Environment:
    """Return the environment that finds the `templates` of `package` and then the shared ones; it escapes values."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, SHARED))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page(
    template: str,
    words: Texts,
    *,
    package: str = SHARED,
    status: int = 200,
    headers: Headers = (),
    leads_away: bool = False,
    isolated: bool = False,
    **values: Any,
) -> Answer:
    """Return a template of `package` filled in.

    `leads_away`: the answer to its form redirects to an application. Chromium and Safari apply form-action to every
    redirect after a form, the application's own ones included, which are unknown here: such a page has no form-action.
    `isolated`: the page has `Cross-Origin-Opener-Policy: same-origin`. No page or redirect between an application's
    authorization request and its redirect URI may have it: an application that opened a popup could no longer access
    it, and the popup would lose its `window.opener`.
    """
    body = environment(package).get_template(template).render(t=words, asset=asset_path, **values)
    own = (
        ("content-security-policy", POLICY if leads_away else f"{POLICY}; form-action 'self'"),
        ("content-language", words.language),
        ("vary", "accept-language, cookie"),
        *_HEADERS,
        *((_ISOLATED,) if isolated else ()),
    )
    return Answer(status, body, (*own, *headers), HTML)


def redirect(location: str, headers: Headers = ()) -> Answer:
    """Return a 303, so that the browser doesn't send the form on."""
    quoted = urllib.parse.quote(location, safe=_PRINTABLE)
    return Answer(303, None, (("location", quoted), *_HEADERS, *headers), HTML)


def error_page(refusal: Refusal, headers: Mapping[str, str]) -> Answer:
    """Return the page of a refusal, in the language that the request's `headers` prefer."""
    words = texts(choose(headers.get("accept-language", "")))
    code = refusal.kind.code
    general = "internal_error" if refusal.kind.status >= 500 else "bad_request"
    name = code if f"error.{code}.title" in words else general
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


@cache
def asset_path(name: str) -> str:
    """Return the URL of an asset, which changes with its content."""
    return f"{ASSETS_PATH}{name}?v={sha256(asset(name)).hexdigest()[:12]}"


def asset_operation(surface: Surface, path: str, name: str, content: bytes, media_type: str) -> Operation:
    """Return the operation that serves an asset below `path`, cached by browsers for a year."""
    headers = (
        ("cache-control", f"public, max-age={ASSET_SECONDS}, immutable"),
        ("x-content-type-options", "nosniff"),
    )
    answer = Answer(200, content, headers, media_type)

    async def show(_: Call) -> Answer:
        return answer

    return Operation(
        "GET",
        f"{path}{name}",
        f"{path.split('/')[1]}_{name.replace('.', '_')}",
        f"Asset of the pages: {name}",
        surface,
        show,
        transaction="none",
        is_constant=True,
        media_type=media_type,
    )


@cache
def asset(name: str) -> bytes:
    """Return the content of one of the `ASSETS`; the icon is shared with the reference."""
    package = "paydesk.http" if name == "icon.svg" else "paydesk.web"
    return files(package).joinpath("static", name).read_bytes()
