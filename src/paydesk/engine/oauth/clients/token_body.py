"""The body of a request to the token endpoints, which is read before anything else is checked."""

from __future__ import annotations

import urllib.parse
from typing import Any

from paydesk.core.errors import INVALID_REQUEST, Refusal
from paydesk.engine.oauth.clients import authentication, basic
from paydesk.engine.oauth.clients.authentication import ClientThrottle
from paydesk.engine.oauth.errors import invalid_parameter
from paydesk.platform.http import body
from paydesk.platform.http.request import Request
from paydesk.platform.http.surfaces import FORM, JSON
from paydesk.platform.shared import Shared

JSON_AS_FORM = f"The body is JSON, but Content-Type says {FORM}: send Content-Type: {JSON}."
"""The message for curl, whose default is this Content-Type."""
_START_BYTES = 64


def read(request: Request, raw: bytes, address: str, shared: Shared) -> dict[str, Any]:
    """Return the body, a form or JSON, with the client's credentials of the header.

    Raises `invalid_request`, and `local_rate_limited` for a client with too many failures, which comes first.
    """
    document: Any = {}
    if raw:
        if request.check_body_headers((JSON, FORM)) == FORM:
            start = urllib.parse.unquote_to_bytes(raw[:_START_BYTES].replace(b"+", b" ")).lstrip()
            if start.startswith((b"{", b"[", b'"')):
                # Percent-encoded or not: as a form its values would be part of a parameter's name.
                raise INVALID_REQUEST.with_reason("JSON sent as a form", message=JSON_AS_FORM)
            document = body.parse_form(raw, name_fault=invalid_parameter)
        else:
            document = body.parse_json(raw, invalid_parameter)
    if not isinstance(document, dict):
        raise INVALID_REQUEST.with_reason("the body is not an object")
    sent: dict[str, Any] = document
    authorizations, throttle = request.all("authorization"), shared.objects[ClientThrottle]
    if any(map(basic.is_basic, authorizations)):
        try:
            sent = basic.with_credentials(document, authorizations)
        except Refusal:
            authentication.check_throttled(throttle, document, address)
            raise
    authentication.check_throttled(throttle, sent, address)
    return sent
