"""The demo application's redirect URI: a page that displays the authorization code and does nothing with it."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping

from paydesk.web.html import environment

PARAMETERS = ("code", "state", "scope", "iss", "error", "error_description")

_STYLE = """
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 48rem; margin: 4rem auto; padding: 0 1rem }
dt { font-weight: 600; margin-top: 1rem }
pre { padding: 1rem; overflow-x: auto; border: 1px solid GrayText; border-radius: .5rem; user-select: all }
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
{% if parameters %}
<dl>
{% for name, value in parameters %}<dt>{{ name }}</dt><dd>{{ value }}</dd>
{% endfor %}</dl>
{% else %}
<p>Send a seller to /authorization with this page as redirect_uri; its answer is displayed here.</p>
{% endif %}
{% if exchange %}
<h2>Exchange it for tokens</h2>
<p>Within ten minutes and once only, in the folder where the service was started:</p>
<pre tabindex="0">{{ exchange }}</pre>
<p>It reads <code>client_id</code>, <code>client_secret</code> and <code>redirect_uri</code> from the credentials file.
If the request had a <code>code_challenge</code>, add <code>-d code_verifier=…</code>.</p>
{% endif %}
</main>
"""

_EXCHANGE = """\
C=.paydesk/credentials.json
of() { grep -oE "\\"$1\\": \\"[^\\"]+" $C | cut -d'"' -f4; }
curl -sS "$(of base_url)/oauth/token" -d test_token=true \\
  -d grant_type=authorization_code -d redirect_uri="$(of redirect_uri)" \\
  -d client_id="$(of client_id)" -d client_secret="$(of client_secret)" \\
  -d code=CODE"""
# The text is meant for a shell, so only a well-formed code is inserted.
_CODE = re.compile(r"TG-[0-9a-f]{40}-[0-9]{1,19}", re.ASCII)

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
    """Return the page for the parameters that the authorization page sent."""
    parameters = [(name, query[name]) for name in PARAMETERS if name in query]
    code = query.get("code", "")
    exchange = _EXCHANGE.replace("CODE", code) if _CODE.fullmatch(code) else None
    title = "The seller agreed" if code else "The seller did not agree" if "error" in query else "No code"
    return environment().from_string(_PAGE).render(title=title, style=_STYLE, parameters=parameters, exchange=exchange)
