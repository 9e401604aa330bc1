"""The demo application's redirect URI: a page that displays the authorization code and does nothing with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from paydesk.engine.oauth import store
from paydesk.engine.oauth.clients import applications
from paydesk.platform.operation import Answer
from paydesk.platform.storage.database import Transaction
from paydesk.platform.web import html, language

PARAMETERS = ("code", "state", "scope", "iss", "error", "error_description")
# The text is meant for a shell, so only a well-formed code is inserted.
_CODE = re.compile(r"TG-[0-9a-f]{40}-[0-9]{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Exchange:
    """The exchange of a code for test tokens: by which application, and whether it needs the parameter `test_token`."""

    client_id: str
    sends_test_token: bool


UNKNOWN = Exchange("", sends_test_token=True)


def code_of(query: Mapping[str, str]) -> str:
    """Return the code that the authorization page sent; empty if there is none or it is malformed."""
    code = query.get("code", "")
    return code if _CODE.fullmatch(code) else ""


async def find_exchange(tx: Transaction, code: str) -> Exchange:
    """Return how the code is exchanged, or `UNKNOWN` if this service did not issue it."""
    issued = await store.find_code(tx, code)
    application = await applications.get(tx, issued.application_id) if issued is not None else None
    if issued is None or application is None:
        return UNKNOWN
    return Exchange(str(application.application_id), issued.test_token is None and not application.test_tokens)


def page(query: Mapping[str, str], exchange: Exchange) -> Answer:
    """Return the page for the parameters that the authorization page sent, with the command that exchanges the code."""
    code = query.get("code", "")
    return html.page(
        "callback.html",
        language.texts("en"),
        package="paydesk_dev.inbox",
        title="The seller agreed" if code else "The seller did not agree" if "error" in query else "No code",
        parameters=[(name, query[name]) for name in PARAMETERS if name in query],
        code=code_of(query),
        client_id=exchange.client_id,
        sends_test_token=exchange.sends_test_token,
        is_agreed=bool(code),
        is_refused="error" in query,
    )
