"""The curl command that sends a recorded request again, with variables for tokens; all that was sent is quoted."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from paydesk.console.request import ConsoleRequest
from paydesk.core.text.card_numbers import MASK

JSON_HEADER = "Content-Type: application/json"
BASE, BODY_FILE = '"$PAYDESK_BASE_URL"', "body.json"
"""The address of the service where it is not known here, and the file with the body if that is not recorded."""
ACCESS_TOKEN, DEVICE_TOKEN = "PAYDESK_ACCESS_TOKEN", "PAYDESK_DEVICE_TOKEN"
"""The variables that the commands need; `paydesk env` sets those of an application."""
_WITH_BODY = ("POST", "PUT", "PATCH")
_PATH_SAFE, _QUERY_SAFE = "/%:@!$&'()*+,;=~", "/%:@!$&'()*+,;=~?"


def base_url(request: ConsoleRequest) -> str:
    """Return the address that clients send requests to, as far as it is known.

    In production it is another one than that of the operators' listener.
    """
    return (request.call.settings.public_url or "") if request.development else ""


def command(one: Mapping[str, Any], base_url: str = "") -> str:
    """Return the command for a request of `GET /operator/v1/requests/{entry_id}`."""
    path, mark, query = one["path"].partition("?")
    target = quote(path, safe=_PATH_SAFE) + mark + quote(query, safe=_QUERY_SAFE)
    address = shlex.quote(base_url.rstrip("/") + target) if base_url else BASE + shlex.quote(target)
    lines = [f"curl -sS -X {shlex.quote(one['method'])} {address}"]
    if not path.startswith("/oauth/"):
        variable = DEVICE_TOKEN if path.startswith("/device/") else ACCESS_TOKEN
        lines.append(f'-H "Authorization: Bearer ${variable}"')
    if "idempotency_key" in one:
        lines.append('-H "X-Idempotency-Key: $(uuidgen)"')
    body = one.get("request_body", "")
    if body:
        if not path.startswith("/oauth/") or body.lstrip().startswith("{"):
            lines.append(f"-H '{JSON_HEADER}'")
        # Unlike -d it does not read a file if the body begins with @.
        lines.append(f"--data-raw {shlex.quote(body)}")
    elif one["method"] in _WITH_BODY and one.get("operation") and "response_body" not in one:
        lines += [f"-H '{JSON_HEADER}'", f"-d @{BODY_FILE}"]
    return " \\\n  ".join(lines)


def needs(text: str) -> list[str]:
    """Return what a person fills in before the command can be run."""
    wanted = [f"${name}" for name in ("PAYDESK_BASE_URL", ACCESS_TOKEN, DEVICE_TOKEN) if f"${name}" in text]
    if f"@{BODY_FILE}" in text:
        wanted.append(f"the body in {BODY_FILE}")
    if MASK in text:
        wanted.append(f"each secret that is masked as {MASK}")
    return wanted
