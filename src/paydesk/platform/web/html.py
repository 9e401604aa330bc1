"""HTML pages and redirects as answers, their Jinja environment and headers, and how JSON is shown in them."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from paydesk.core.errors import Refusal
from paydesk.platform.operation import Answer
from paydesk.platform.web import assets
from paydesk.platform.web.assets import SHARED
from paydesk.platform.web.language import Texts, choose, texts

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

HTML = "text/html; charset=utf-8"
AGAIN = "again"
"""The key in a refusal's `extra` of the path at which the error page offers to start again."""

POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"
SCRIPTS = "; script-src 'self'; connect-src 'self'"
"""Added to the policy of pages with scripts: files of this service only, no inline script and no `eval`."""
INDENTED_GROWTH_MAX = 4
"""A deeply nested body that grows more when indented is shown as it is."""
_HEADERS = (
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
)
_ISOLATED = ("cross-origin-opener-policy", "same-origin")
_PRINTABLE = "!#$%&'()*+,-./:;=?@[]_~"
Headers = tuple[tuple[str, str], ...]


BESIDE: dict[str, tuple[str, ...]] = {}
"""The packages whose templates lie beside their code, such as in the folder of a noun, by the package that has their
pages."""


@cache
def environment(package: str = SHARED) -> Environment:
    """Return the environment that finds the `templates` of `package` and then the shared ones; it escapes values.

    Its templates have `asset(name)`, the URL of an asset, and `icon(name)`, one of the icons of `static/icons.svg`.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loaders = [PackageLoader(name) for name in dict.fromkeys((package, SHARED))]
    loaders += [PackageLoader(name, "") for name in BESIDE.get(package, ())]
    created = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    created.globals |= {"asset": partial(assets.path_of, package), "icon": icon, "scripts": False}
    return created


def indented(text: str) -> str:
    """Return JSON with line breaks, and any other text unchanged."""
    try:
        shown = msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return text
    return shown if len(shown) <= INDENTED_GROWTH_MAX * len(text) else text


def icon(name: str) -> Markup:
    """Return one of the shared icons, hidden from screen readers: the text beside it says the same."""
    from markupsafe import Markup

    sprite = assets.path_of(SHARED, "icons.svg")
    return Markup('<svg class="i" aria-hidden="true"><use href="{}#{}"></use></svg>').format(sprite, name)


def page(
    template: str,
    words: Texts,
    *,
    package: str = SHARED,
    status: int = 200,
    headers: Headers = (),
    leads_away: bool = False,
    isolated: bool = False,
    scripts: bool = False,
    **values: Any,
) -> Answer:
    """Return a template of `package` filled in.

    `leads_away`: the answer to its form redirects to an application. Chromium and Safari apply form-action to every
    redirect after a form, the application's own ones included, which are unknown here: such a page has no form-action.
    `isolated`: the page has `Cross-Origin-Opener-Policy: same-origin`. No page or redirect between an application's
    authorization request and its redirect URI may have it: an application that opened a popup could no longer access
    it, and the popup would lose its `window.opener`.
    `scripts`: the page loads htmx and the scripts of its block `scripts`.
    """
    body = environment(package).get_template(template).render(t=words, scripts=scripts, **values)
    policy = POLICY + (SCRIPTS if scripts else "") + ("" if leads_away else "; form-action 'self'")
    own = (
        ("content-security-policy", policy),
        ("content-language", words.language),
        ("vary", "accept-language, cookie"),
        *_HEADERS,
        *((_ISOLATED,) if isolated else ()),
    )
    return Answer(status, body, (*own, *headers), HTML)


def fragment(body: str, refusal: Refusal | None = None) -> Answer:
    """Return parts of a page for htmx, with the status of the refusal that they show."""
    status = 200 if refusal is None else refusal.kind.status
    return Answer(status, body, _HEADERS, HTML, refusal)


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
