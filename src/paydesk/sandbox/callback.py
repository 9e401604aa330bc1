"""The demo application's redirect URI: a page that displays the authorization code and does nothing with it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from paydesk.operation import Answer
from paydesk.web import html, language

PARAMETERS = ("code", "state", "scope", "iss", "error", "error_description")
# The text is meant for a shell, so only a well-formed code is inserted.
_CODE = re.compile(r"TG-[0-9a-f]{40}-[0-9]{1,19}", re.ASCII)


def page(query: Mapping[str, str]) -> Answer:
    """Return the page for the parameters that the authorization page sent."""
    code = query.get("code", "")
    return html.page(
        "callback.html",
        language.texts("en"),
        package="paydesk.sandbox",
        title="The seller agreed" if code else "The seller did not agree" if "error" in query else "No code",
        parameters=[(name, query[name]) for name in PARAMETERS if name in query],
        code=code if _CODE.fullmatch(code) else "",
        is_agreed=bool(code),
        is_refused="error" in query,
    )
