"""The detail of a 401: which credential was sent, and which one the surface needs.

It depends on the sent text alone, so that a guess learns nothing. Only of a credential that was valid once the modules
that look it up say more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from paydesk.core.errors import UNAUTHORIZED, Refusal
from paydesk.core.ids import PUBLIC_KEY_PATTERN
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

_PUBLIC_KEY = re.compile(PUBLIC_KEY_PATTERN)


def explained(refusal: Refusal, authorization: str | None, accepted: Credential | None) -> Refusal:
    """Return the refusal of a request's `Authorization` with a detail, unless it has one or is another error."""
    if refusal.kind is not UNAUTHORIZED or refusal.details or accepted is None:
        return refusal
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip()
    others = (kind for prefix, kind in KINDS.items() if prefix not in accepted.prefixes and token.startswith(prefix))
    if authorization is None:
        detail = f"send the header Authorization: Bearer with {accepted.needed}"
    elif scheme.lower() != "bearer":
        detail = f"the header Authorization does not begin with Bearer; send Bearer, a space and {accepted.needed}"
    elif not token:
        detail = f"the header Authorization has no token; send Bearer, a space and {accepted.needed}"
    elif _PUBLIC_KEY.fullmatch(token):
        detail = f"a public key was sent; this operation needs {accepted.needed}"
    elif (sent := next(others, None)) is not None:
        detail = f"{sent} was sent; this operation needs {accepted.needed}"
    else:
        detail = f"the token is unknown; send {accepted.needed}, unchanged"
    return replace(refusal, details=(detail,))
