"""The demo application's redirect address: a page that shows the code it was given, and does nothing with it."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping

SHOWN = ("code", "state", "scope", "iss", "error", "error_description")

_STYLE = """
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 44rem; margin: 4rem auto; padding: 0 1rem }
dt { font-weight: 600; margin-top: 1rem }
dd { margin: 0; overflow-wrap: anywhere; font-family: ui-monospace, monospace; user-select: all }
"""

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>{{ style|safe }}</style>
<main>
<h1>{{ title }}</h1>
{% if shown %}
<dl>
{% for name, value in shown %}<dt>{{ name }}</dt><dd>{{ value }}</dd>
{% endfor %}</dl>
{% else %}
<p>Send a seller to /authorization with this page as redirect_uri; what comes back is shown here.</p>
{% endif %}
{% if is_code %}<p>Exchange the code within ten minutes at POST /oauth/token, with the same redirect_uri.</p>{% endif %}
</main>
"""

_STYLE_HASH = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

HEADERS = (
    (
        "content-security-policy",
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
    ),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
)


def page(query: Mapping[str, str]) -> str:
    """The page for what the authorization page gave."""
    from jinja2 import Environment, StrictUndefined

    shown = [(name, query[name]) for name in SHOWN if name in query]
    is_code = "code" in query
    title = "The seller agreed" if is_code else "The seller did not agree" if "error" in query else "Nothing was given"
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(_PAGE)
    return template.render(title=title, style=_STYLE, shown=shown, is_code=is_code)
