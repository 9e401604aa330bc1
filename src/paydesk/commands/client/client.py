"""The command line as an HTTP client of a running service: one request at a time, with one token, and one reader."""

from __future__ import annotations

import json
import re
import shlex
import urllib.parse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paydesk import __version__
from paydesk.commands.client.credentials import HOW_TO_AUTHENTICATE, Credentials, find_credentials
from paydesk.commands.client.credentials_file import HOW_TO_RENEW, HOW_TO_START, tokens, tokens_refused
from paydesk.commands.client.failure import Failure, Unreachable, WrongUsage
from paydesk.commands.client.options import note
from paydesk.core import ids

if TYPE_CHECKING:
    from http.client import HTTPMessage

Answer = Mapping[str, Any]

TIMEOUT_SECONDS = 30
OPERATOR_HINTS = {
    "unauthorized": HOW_TO_AUTHENTICATE,
    "not_found": "Check the address: it must be the one for operators (`operator_listen`).",
}
"""The advice about an error, by its code."""
NOT_PAYDESK = "The response is not from Paydesk. Check the address of the service."
HOW_TO_REPEAT = "Check whether it was applied before you repeat it."
DEVELOPMENT = re.compile(
    r"[A-Z]+ (?:/dev/|/virtual/|/demo/).*"
    r"|POST /operator/v1/(?:codes|terminals|requests/[^/]+/send|deliveries/[^/]+/send-to)"
    r"|(?:PUT|DELETE) /operator/v1/subscriptions/[^/]+/fault"
)
"""The operations of services for development, as `METHOD /path`."""
IN_PRODUCTION = {
    "POST /operator/v1/codes": "In production the seller's browser takes the code to the application's https redirect"
    " URI: `paydesk authorize-url` prints the address to open there. See docs/get-a-token.md.",
}
"""The sentence about how to do the same in production, by the operation."""
HOW_TO_REACH = "Check that the service runs, and that PAYDESK_BASE_URL is its address for operators."
_NEXT = re.compile('<([!-~]+)>; rel="next"')
_MALFORMED = re.compile(r"'(\w+)' - is malformed")
OUTCOME_UNKNOWN = (423, 500, 502, 503, 504)
"""Statuses of a response after which the request may or may not have been applied."""


class Received(NamedTuple):
    """A response."""

    status: int
    headers: HTTPMessage
    raw: bytes

    def document(self) -> Answer | None:
        """Return the JSON object, empty without a body; None if it is not one of Paydesk, such as with other errors."""
        try:
            document = json.loads(self.raw) if self.raw else {}
            is_readable = all(
                isinstance(one["code"], str) and isinstance(one["message"], str) and isinstance(one["details"], list)
                for one in ({"details": [], **error} for error in document.get("errors", []))
            )
        except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
            return None
        return document if is_readable else None


class Service:
    """An HTTP client of the service of the credentials, with one bearer token.

    `hints` has what to do about errors of the service, by their codes.
    """

    def __init__(self, credentials: Credentials, token: str, hints: Mapping[str, str] = OPERATOR_HINTS) -> None:
        if not re.fullmatch("[!-~]*", token):
            raise WrongUsage("The token has characters that no token has: spaces, or others than ASCII.", HOW_TO_RENEW)
        self.credentials, self.base_url, self._token = credentials, credentials.base_url, token
        self._hints = hints
        self.headers = {"User-Agent": f"paydesk/{__version__}", "Authorization": f"Bearer {token}"}

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Answer:
        """Send a GET and return the response's document. Raises `Failure`, `Unreachable`."""
        asked = given(query or {})
        return self.request("GET", f"{path}?{urllib.parse.urlencode(asked)}" if asked else path)

    def post(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Answer:
        """Send a POST without the fields that are None; return the document. Raises `Failure`, `Unreachable`."""
        return self.request("POST", path, given(body or {}), headers, timeout_seconds=timeout_seconds)

    def post_with_key(
        self, path: str, body: Mapping[str, Any], key: str | None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a POST under an idempotency key, by default a new one.

        If its outcome is unknown, the failure says how to repeat it safely.
        """
        key = key or ids.uuid()
        repeat = (
            f"Repeat it with --key {shlex.quote(key)}: if it was applied, you get the same response, and nothing"
            " happens twice."
        )
        try:
            answer = self.request("POST", path, given(body), {**(headers or {}), "X-Idempotency-Key": key}, repeat)
        except KeyboardInterrupt:
            note(f"The request may or may not have been applied. {repeat}")
            raise
        if "id" not in answer or "status" not in answer:
            raise Failure(NOT_PAYDESK, repeat)
        return answer

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeat: str = "",
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Answer:
        """Send a request and return the document. Raises `Failure` with the service's message, `Unreachable`.

        `repeat` says how to repeat a request whose outcome is unknown.
        """
        received = self._exchange(method, path, body, headers or {}, repeat or HOW_TO_REPEAT, timeout_seconds)
        document = received.document()
        if document is None or received.status >= 300:
            raise self.refusal(received, f"{method} {path.partition('?')[0]}", repeat)
        return document

    def download(self, path: str, media_type: str) -> tuple[bytes, str | None]:
        """Send a GET and return the response's body, and the address of the next part. Raises as `request`."""
        received = self._exchange("GET", path)
        if received.status >= 400:
            raise self.refusal(received)
        if received.status != 200 or received.headers.get("Content-Type", "").partition(";")[0] != media_type:
            raise Failure(NOT_PAYDESK)
        link = _NEXT.fullmatch(received.headers.get("Link", ""))
        return received.raw, link[1] if link is not None else None

    def refusal(self, received: Received, operation: str = "", repeat: str = "") -> Failure:
        """Return the failure for a response that is no success. `operation` is `METHOD /path`."""
        status, document = received.status, received.document()
        repeats = [repeat] if repeat and status in OUTCOME_UNKNOWN else []
        if document is None or 300 <= status < 400:
            return Failure(NOT_PAYDESK, *repeats)
        if status == 401 and self._token in tokens(self.credentials.document):
            return tokens_refused(self.credentials.file, self.base_url)
        errors = document.get("errors")
        if not errors:  # An error of OAuth has its message alone.
            return Failure(str(document.get("message") or f"The service responded with status {status}."), *repeats)
        code, message = errors[0]["code"], errors[0]["message"]
        is_unknown = code == "method_not_allowed" or message.startswith("Unknown path.")
        if status in (404, 405) and is_unknown and DEVELOPMENT.fullmatch(operation):
            return Failure(
                f"The service at {self.base_url} is not for development, so it cannot do this.",
                "Name one that `paydesk dev` runs: --credentials FILE.",
                *filter(None, [IN_PRODUCTION.get(operation)]),
            )
        details = [str(detail) for error in errors for detail in error.get("details", ())]
        malformed = _MALFORMED.fullmatch(details[0]) if details else None
        if code == "invalid_path_param" and malformed is not None:
            return Failure(f"{malformed[1].upper()} is malformed: give an id as the lists show it. ({code})")
        if code.startswith("cannot_resolve_") and details:
            details[0], message = message, f"{details[0][:1].upper()}{details[0][1:]}."
        if code in self._hints:
            details.append(self._hints[code])
        if retry_after := received.headers.get("Retry-After", ""):
            details.append(f"Wait {retry_after} s.")
        return Failure(f"{message} ({code})", *details, *repeats)

    def _exchange(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] = {},
        repeat: str = HOW_TO_REPEAT,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Received:
        import http.client

        address = urllib.parse.urlsplit(self.base_url)
        connect: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
        if address.scheme == "https":
            connect = partial(http.client.HTTPSConnection, context=self.credentials.tls_context())
        connection = connect(address.hostname or "", address.port, timeout=timeout_seconds)
        sent = {**self.headers, **headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        failure, hint = "Cannot connect to {}", HOW_TO_START if self.credentials.document else HOW_TO_REACH
        try:
            connection.connect()
            failure, hint = "No response from {}", "Try again."
            if method != "GET":
                failure, hint = "No response from {}; the request may or may not have been applied", repeat
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            return Received(answer.status, answer.headers, answer.read())
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unreachable(f"{failure.format(self.base_url)}: {reason}.", hint) from None
        finally:
            connection.close()


def segment(text: str) -> str:
    """Escape an id from the command line as one segment of a path. Raises `WrongUsage` for an empty one."""
    if not text:
        raise WrongUsage("An id must not be empty.")
    return urllib.parse.quote(text, safe="")


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def operator_service(file: Path | None) -> Service:
    """Return a client with the operator's token of the credentials."""
    return as_operator(find_credentials(file))


def as_operator(credentials: Credentials) -> Service:
    """Return a client with the operator's token. Raises `WrongUsage` if the only token is for another service."""
    if not credentials.operator_token:
        credentials.refuse_other_service()
        if credentials.file is not None:
            raise WrongUsage(f"{credentials.file} has no operator's token (`operator.token`).", HOW_TO_RENEW)
    return Service(credentials, credentials.operator_token)
