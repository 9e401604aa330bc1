"""The command line as an HTTP client of a running service: one request at a time, with one token."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paydesk import __version__
from paydesk.commands.credentials import HOW_TO_AUTHENTICATE, Credentials, find_credentials
from paydesk.commands.credentials_file import HOW_TO_RENEW, HOW_TO_START, tokens, tokens_refused
from paydesk.commands.failure import Failure, Unreachable, WrongUsage
from paydesk.commands.options import note

Answer = Mapping[str, Any]

TIMEOUT_SECONDS = 30
OPERATOR_HINTS = {
    "unauthorized": HOW_TO_AUTHENTICATE,
    "not_found": "Check the address: it must be the one for operators (`operator_listen`).",
}
"""What to do about an error, by its code."""
NOT_PAYDESK = "The response is not from Paydesk. Check the address of the service."
HOW_TO_REPEAT = "Check whether it was applied before you repeat it."
DEVELOPMENT = re.compile(
    r"[A-Z]+ (?:/dev/|/virtual/|/demo/).*"
    r"|POST /operator/v1/(?:codes|terminals|requests/[^/]+/send|deliveries/[^/]+/send-to)"
    r"|(?:PUT|DELETE) /operator/v1/subscriptions/[^/]+/fault"
)
"""The operations of services for development, as `METHOD /path`."""
HOW_TO_REACH = "Check that the service runs, and that PAYDESK_BASE_URL is its address for operators."
_NEXT = re.compile('<([!-~]+)>; rel="next"')
_MALFORMED = re.compile(r"'(\w+)' - is malformed")
OUTCOME_UNKNOWN = (423, 500, 502, 503, 504)
"""Statuses of a response after which the request may or may not have been applied."""


class Received(NamedTuple):
    """A response."""

    status: int
    headers: http.client.HTTPMessage
    raw: bytes


class Service:
    """An HTTP client of the service of the credentials, with one bearer token.

    `hints` has what to do about errors of the service, by their codes.
    """

    def __init__(self, credentials: Credentials, token: str, hints: Mapping[str, str] = OPERATOR_HINTS) -> None:
        if not re.fullmatch("[!-~]*", token):
            raise WrongUsage("The token has characters that no token has: spaces, or others than ASCII.", HOW_TO_RENEW)
        self.credentials, self._base_url, self._token = credentials, credentials.base_url, token
        self._hints = hints

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
        self, path: str, body: Mapping[str, Any], key: str, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a POST under an idempotency key. If its outcome is unknown, the failure says how to repeat it safely."""
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
        document = _document(received.raw)
        if document is not None and _is_unknown(received.status, document):
            target = f"{method} {path.partition('?')[0]}"
            if DEVELOPMENT.fullmatch(target):
                raise Failure(
                    f"The service at {self._base_url} is not for development, so it cannot do this.",
                    "Name one that `paydesk dev` runs: --credentials FILE.",
                )
        return self._checked(received, document, repeat)

    def download(self, path: str, media_type: str) -> tuple[bytes, str | None]:
        """Send a GET and return the response's body, and the address of the next part. Raises as `request`."""
        received = self._exchange("GET", path, None, {}, HOW_TO_REPEAT)
        if received.status != 200 or received.headers.get_content_type() != media_type:
            self._checked(received, _document(received.raw) if received.status >= 400 else None)
        found = _NEXT.fullmatch(received.headers.get("Link", ""))
        return received.raw, found[1] if found is not None else None

    def _checked(self, received: Received, document: Answer | None, repeat: str = "") -> Answer:
        status, retry_after = received.status, received.headers.get("Retry-After", "")
        repeats = [repeat] if repeat and status in OUTCOME_UNKNOWN else []
        if document is None or 300 <= status < 400 or not _is_readable(document.get("errors", [])):
            raise Failure(NOT_PAYDESK, *repeats)
        if status == 401 and self._token in tokens(self.credentials.document):
            raise tokens_refused(self.credentials.file, self._base_url)
        if status >= 400:
            raise _refused(status, document, retry_after, self._hints, repeats)
        return document

    def _exchange(
        self,
        method: str,
        path: str,
        body: Any,
        headers: Mapping[str, str],
        repeat: str,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Received:
        connection = self._connection(urllib.parse.urlsplit(self._base_url), timeout_seconds)
        sent = {"User-Agent": f"paydesk/{__version__}", "Authorization": f"Bearer {self._token}", **headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        failure = f"Cannot connect to {self._base_url}"
        hint = HOW_TO_START if self.credentials.document else HOW_TO_REACH
        try:
            connection.connect()
            failure = f"No response from {self._base_url}"
            if method != "GET":
                failure += "; the request may or may not have been applied"
                hint = repeat
            else:
                hint = "Try again."
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unreachable(f"{failure}: {reason}.", hint) from None
        finally:
            connection.close()
        return Received(answer.status, answer.headers, raw)

    def _connection(self, address: urllib.parse.SplitResult, timeout_seconds: float) -> http.client.HTTPConnection:
        host, port = address.hostname or "", address.port
        if address.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=timeout_seconds)
        return http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=self.credentials.tls_context())


def segment(text: str) -> str:
    """Escape an id from the command line as one segment of a path. Raises `WrongUsage` for an empty one."""
    if not text:
        raise WrongUsage("An id must not be empty.")
    return urllib.parse.quote(text, safe="")


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def changes(**options: Any) -> dict[str, Any]:
    """Return the options that were given. Raises `WrongUsage` if there are none."""
    found = given(options)
    if not found:
        raise WrongUsage("Nothing to change. Give at least one option; see --help.")
    return found


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


def _document(raw: bytes) -> Answer | None:
    """Return the response's JSON object, empty without a body; None if it is something else."""
    try:
        document = json.loads(raw) if raw else {}
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _is_unknown(status: int, document: Answer) -> bool:
    """Return whether the service has no operation with this method and path."""
    errors = document.get("errors")
    if status not in (404, 405) or not _is_readable(errors) or not errors:
        return False
    return bool(errors[0]["code"] == "method_not_allowed" or errors[0]["message"].startswith("Unknown path."))


def _is_readable(errors: Any) -> bool:
    """Return whether these are the errors of a response of Paydesk."""
    return isinstance(errors, list) and all(
        isinstance(error, dict)
        and isinstance(error.get("code"), str)
        and isinstance(error.get("message"), str)
        and isinstance(error.get("details", []), list)
        for error in errors
    )


def _refused(status: int, document: Answer, retry_after: str, hints: Mapping[str, str], repeats: list[str]) -> Failure:
    errors = document.get("errors")
    if not errors:
        return Failure(str(document.get("message") or f"The service responded with status {status}."), *repeats)
    details = [str(detail) for error in errors for detail in error.get("details", ())]
    malformed = _MALFORMED.fullmatch(details[0]) if details else None
    if errors[0]["code"] == "invalid_path_param" and malformed is not None:
        argument = malformed[1].upper()
        return Failure(f"{argument} is malformed: give an id as the lists show it. (invalid_path_param)")
    if errors[0]["code"] in hints:
        details.append(hints[errors[0]["code"]])
    if retry_after:
        details.append(f"Wait {retry_after} s.")
    return Failure(f"{errors[0]['message']} ({errors[0]['code']})", *details, *repeats)
