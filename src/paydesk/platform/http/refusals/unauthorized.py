"""The detail of a 401: which credential was sent, and which one the surface needs.

It depends on the sent text alone, so that a guess learns nothing. Only of a credential that was valid once the modules
that look it up say more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from paydesk.core.errors import UNAUTHORIZED, Refusal
from paydesk.engine.oauth.tokens import PUBLIC_KEY_PATTERN
from paydesk.platform.operation import Surface


@dataclass(frozen=True, slots=True)
class Needed:
    """The bearer token of a surface, and the prefixes of the kinds that it accepts."""

    token: str
    prefixes: tuple[str, ...]


NEEDED: Mapping[Surface, Needed] = {
    "application": Needed("an access token (APP_USR-… or TEST-…) of POST /oauth/token", ("APP_USR-", "TEST-")),
    "device": Needed("the terminal's own token (PDT-…)", ("PDT-",)),
    "operator": Needed("an operator's token (PDO-…)", ("PDO-", "PDS-")),
    "virtual": Needed(
        "a test access token (TEST-…) or an operator's token (PDO-…)", ("TEST-", "APP_USR-", "PDO-", "PDS-")
    ),
}
KINDS: Mapping[str, str] = {
    "APP_USR-": "a live access token (APP_USR-…)",
    "TEST-": "a test access token (TEST-…)",
    "TG-": "a refresh token or an authorization code (TG-…)",
    "PDT-": "a terminal's token (PDT-…)",
    "PDO-": "an operator's token (PDO-…)",
    "PDS-": "the token of an operator's session (PDS-…)",
    "whsec_": "a webhook secret (whsec_…)",
}
"""The kinds of credentials by prefix."""

_PUBLIC_KEY = re.compile(PUBLIC_KEY_PATTERN)


def explained(refusal: Refusal, authorization: str | None, surface: Surface) -> Refusal:
    """Return the refusal of a request's `Authorization` with a detail, unless it has one or is another error."""
    if refusal.kind is not UNAUTHORIZED or refusal.details:
        return refusal
    return replace(refusal, details=(_detail(authorization, NEEDED[surface]),))


def _detail(authorization: str | None, needed: Needed) -> str:
    if authorization is None:
        return f"send the header Authorization: Bearer with {needed.token}"
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return f"the header Authorization does not begin with Bearer; send Bearer, a space and {needed.token}"
    token = token.strip()
    if not token:
        return f"the header Authorization has no token; send Bearer, a space and {needed.token}"
    sent = _kind(token, needed)
    if sent is not None:
        return f"{sent} was sent; this operation needs {needed.token}"
    return f"the token is unknown; send {needed.token}, unchanged"


def _kind(token: str, needed: Needed) -> str | None:
    """Return the kind of credential that was sent, or None if it is unknown or one that the surface accepts."""
    if _PUBLIC_KEY.fullmatch(token):
        return "a public key"
    prefix = next((prefix for prefix in KINDS if token.startswith(prefix)), None)
    return None if prefix is None or prefix in needed.prefixes else KINDS[prefix]
