"""HTTP Basic at the token endpoints: the client's credentials in the header (RFC 6749 section 2.3.1).

Common OAuth libraries send it by default.
"""

from __future__ import annotations

import base64
import binascii
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from paydesk.core.errors import INVALID_REQUEST

CHALLENGE = ("www-authenticate", 'Basic realm="paydesk"')
_CREDENTIALS = ("client_id", "client_secret")
_MALFORMED = "Authorization: Basic must have client_id and client_secret, each form-encoded, as base64 of id:secret."


def is_basic(authorization: str) -> bool:
    """Return whether the header's scheme is Basic; a header of any other scheme is ignored at the token endpoints."""
    return authorization[:6].rstrip().lower() == "basic"


def with_credentials(document: Mapping[str, Any], authorizations: Sequence[str]) -> dict[str, Any]:
    """Return the body with the credentials of the header, which has been sent with these values.

    Raises `invalid_request` for a malformed or repeated header, and if the body has credentials too.
    """
    if len(authorizations) > 1:
        raise INVALID_REQUEST.with_reason(
            "Basic credentials in a repeated header", message="Authorization must be sent only once."
        )
    for name in _CREDENTIALS:
        if name in document:
            raise INVALID_REQUEST.with_reason(
                "credentials in the header and in the body",
                message=f"{name} must not be sent in the body together with Authorization: Basic; send one of the two.",
            )
    try:
        text = base64.b64decode(authorizations[0][5:].strip(), validate=True).decode()
        parts = text.split(":", maxsplit=1)
        credentials = [urllib.parse.unquote_plus(part, errors="strict") for part in parts]
        return {**document, **dict(zip(_CREDENTIALS, credentials, strict=True))}
    except (binascii.Error, ValueError):
        raise INVALID_REQUEST.with_reason("malformed Basic credentials", message=_MALFORMED) from None
