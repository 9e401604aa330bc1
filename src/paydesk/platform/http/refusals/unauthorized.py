"""The detail of a 401: which credential was sent, and which one the surface needs.

It depends on the sent text alone, so that a guess learns nothing. Only of a credential that was valid once the modules
that look it up say more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from paydesk.core.errors import UNAUTHORIZED, Refusal
from paydesk.core.ids import UUID_PATTERN
from paydesk.platform.http.surfaces import Credential

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

_PUBLIC_KEY = re.compile(f"(APP_USR|TEST)-{UUID_PATTERN[1:]}")


def explained(refusal: Refusal, authorization: str | None, accepted: Credential | None) -> Refusal:
    """Return the refusal of a request's `Authorization` with a detail, unless it has one or is another error."""
    if refusal.kind is not UNAUTHORIZED or refusal.details or accepted is None:
        return refusal
    return replace(refusal, details=(_detail(authorization, accepted),))


def _detail(authorization: str | None, accepted: Credential) -> str:
    if authorization is None:
        return f"send the header Authorization: Bearer with {accepted.needed}"
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return f"the header Authorization does not begin with Bearer; send Bearer, a space and {accepted.needed}"
    token = token.strip()
    if not token:
        return f"the header Authorization has no token; send Bearer, a space and {accepted.needed}"
    others = (kind for prefix, kind in KINDS.items() if token.startswith(prefix) and prefix not in accepted.prefixes)
    sent = "a public key" if _PUBLIC_KEY.fullmatch(token) else next(others, None)
    if sent is not None:
        return f"{sent} was sent; this operation needs {accepted.needed}"
    return f"the token is unknown; send {accepted.needed}, unchanged"
