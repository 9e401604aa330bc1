"""`paydesk doctor --url`: what a proxy in front of the service does to requests, seen from outside.

It needs no credentials to find a lost Host, and the access token of an application to wait out a poll: the one of
events, which changes nothing. A terminal's poll would end that of the terminal itself.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.client.options import note

TOKEN, CA_FILE = "PAYDESK_ACCESS_TOKEN", "PAYDESK_CA_FILE"
WAIT_SECONDS: Final = 55
"""The longest wait of a poll."""
TIMEOUT_SECONDS: Final = 75
"""The time for which a client and each proxy must wait for the response of a poll."""
BUSY_SECONDS_MAX: Final = 300
"""For this long events are read until a poll finds none."""

NO_TOKEN = (
    f"No poll was waited out. Set {TOKEN} to the access token of an application: it reads GET /v1/events for a minute."
)
BUSY = "There are new events all the time, so no poll was waited out. Use the token of an application without orders."


def findings(url: str, wait_seconds: int = WAIT_SECONDS) -> list[str]:
    """Return the problems of the service's address, with what to change. Raises `WrongUsage` for no http(s) URL."""
    address = urllib.parse.urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname or address.path.strip("/"):
        raise WrongUsage(f"{url} is not the address of a service, such as https://pay.example.com.")
    url = url.rstrip("/")
    status, document = _get(f"{url}/readyz")
    if status != 200 or "version" not in document:
        return [f"GET /readyz: {_described(status, document)}. No node is ready, or the proxy does not reach one."]
    status, document = _get(f"{url}/v1/events")
    if status == 421:
        return [
            f"The service does not get the host {address.netloc}: the proxy must pass on the Host header, and"
            " public_url or host_names must have this host."
        ]
    if status != 401:
        return [f"GET /v1/events without a token: {_described(status, document)}. Give the address for clients."]
    token = os.environ.get(TOKEN, "")
    if token:
        return _of_a_poll(url, token, wait_seconds)
    note(NO_TOKEN)
    return []


def _of_a_poll(url: str, token: str, wait_seconds: int) -> list[str]:
    """Return the problem of a poll that waits as long as it may for the next event."""
    query, began = {"wait": str(wait_seconds)}, time.monotonic()
    note(f"Waiting for the response of a poll, {wait_seconds} s …")
    while (asked := time.monotonic()) - began < BUSY_SECONDS_MAX:
        status, document = _get(f"{url}/v1/events?{urllib.parse.urlencode(query)}", token)
        seconds = time.monotonic() - asked
        if status in (401, 403):
            return [f"GET /v1/events: {_described(status, document)}. Give {TOKEN} a valid access token."]
        if status != 200 or "next" not in document:
            return [
                f"A poll ended after {seconds:.0f} s: {_described(status, document)}. The proxy must wait for at least"
                f" {TIMEOUT_SECONDS} s, for the service and for the client."
            ]
        if seconds >= wait_seconds:
            return []
        query["after"] = document["next"]
    note(BUSY)
    return []


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows none: the access token would be sent to the other address."""

    def redirect_request(self, *_arguments: object) -> None:
        """Let the redirect be the response."""


def _get(url: str, token: str = "") -> tuple[int, Mapping[str, Any]]:
    """Return status and document of a response, which has none if it is not JSON; 0 and the reason without one."""
    try:
        context = ssl.create_default_context(cafile=os.environ.get(CA_FILE) or None)
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _Redirects)
        try:
            response = opener.open(
                urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {}),  # noqa: S310 - http or https
                timeout=TIMEOUT_SECONDS,
            )
        except urllib.error.HTTPError as error:
            response = error
        with response:
            status, raw = response.status, response.read()
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        return 0, {"reason": str(getattr(error, "reason", error)) or type(error).__name__}
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        document = {}
    return status, document if isinstance(document, dict) else {}


def _described(status: int, document: Mapping[str, Any]) -> str:
    if not status:
        return f"no response ({document['reason']})"
    match document:
        case {"errors": [{"code": str(code)}, *_]}:
            return f"{status} ({code})"
    return f"{status} (not a response of Paydesk)"
