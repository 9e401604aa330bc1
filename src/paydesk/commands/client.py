"""The command line as an HTTP client of a running service: its address and token, and one request at a time."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import ssl
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paydesk import __version__
from paydesk.commands.credentials_file import HOW_TO_RENEW, HOW_TO_START, exists, read_document, tokens
from paydesk.commands.failure import Failure, Unreachable, WrongUsage
from paydesk.commands.options import note

Answer = Mapping[str, Any]

DEFAULT_FILE = Path(".paydesk/credentials.json")
TIMEOUT_SECONDS = 30
PORTS = {"http": 80, "https": 443}
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
HOW_TO_AUTHENTICATE = (
    "Authenticate with --credentials FILE or PAYDESK_OPERATOR_TOKEN; `paydesk operators create` creates a token."
)
OPERATOR_HINTS = {
    "unauthorized": HOW_TO_AUTHENTICATE,
    "not_found": "Check the address: it must be the one for operators (`operator_listen`).",
}
"""What to do about an error, by its code."""
NOT_PAYDESK = "The response is not from Paydesk. Check the address of the service."
HOW_TO_REPEAT = "Check whether it was applied before you repeat it."
OUTCOME_UNKNOWN = (423, 500, 502, 503, 504)
"""Statuses of a response after which the request may or may not have been applied."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The address of the service, the operator's token, and the credentials file if it is for this service."""

    base_url: str
    operator_token: str
    document: Mapping[str, Any]
    other_service: str = ""
    """The address in the credentials file, if it is for another service; its token is not sent to this one."""
    ca_file: str = ""
    """The CA certificate to trust, if the address is that of `paydesk dev --tls`."""
    file: Path | None = None
    """The credentials file, if there is one."""

    def __repr__(self) -> str:
        return f"Credentials({self.base_url})"

    def tls_context(self) -> ssl.SSLContext | None:
        """Return a TLS context that trusts only `ca_file`, or None without one. Raises `WrongUsage` if unreadable."""
        try:
            return ssl.create_default_context(cafile=self.ca_file) if self.ca_file else None
        except OSError as error:  # ssl.SSLError too.
            raise WrongUsage(
                f"The CA certificate {self.ca_file} of the credentials file cannot be read: {error.strerror}.",
                "Restart `paydesk dev --tls`: it writes the file again.",
            ) from None


def find_credentials(file: Path | None) -> Credentials:
    """Return the credentials of `file`, or without it those of the environment, then of the default file.

    The contents of a file are ignored when the environment names another service than the file. Raises `Unreachable`
    when there are no credentials, `WrongUsage` when they cannot be read.
    """
    path = credentials_path(file)
    if file is not None:
        return _complete(path, {})
    is_named = bool(os.environ.get("PAYDESK_CREDENTIALS"))
    return _complete(path if is_named or exists(path) else None, os.environ)


def credentials_path(file: Path | None) -> Path:
    """Return the path of the credentials file: `file`, or that of the environment, or the default one."""
    configured = os.environ.get("PAYDESK_CREDENTIALS")
    return file or (Path(configured) if configured else DEFAULT_FILE)


def _complete(file: Path | None, environment: Mapping[str, str]) -> Credentials:
    document = read_document(file) if file is not None else {}
    documented = str(document.get("base_url", ""))
    base_url = environment.get("PAYDESK_BASE_URL") or documented
    if not base_url:
        raise Unreachable(
            f"No service is configured: neither PAYDESK_BASE_URL nor {file or DEFAULT_FILE} names one.",
            HOW_TO_START,
        )
    origin = _origin(base_url)
    is_https = origin[0] == "https" and _is_https_address(origin, document)
    is_another = bool(documented) and not is_https and origin != _origin(documented)
    used: Mapping[str, Any] = {} if is_another else document
    token = environment.get("PAYDESK_OPERATOR_TOKEN") or used.get("operator", {}).get("token", "")
    ca_file = str(document.get("ca_file", "")) if is_https else ""
    return Credentials(base_url.rstrip("/"), token, used, documented if is_another else "", ca_file, file)


def _is_https_address(origin: tuple[str, str, int], document: Mapping[str, Any]) -> bool:
    """Return whether the origin is the https address of the file's service, under any of this machine's names."""
    secure = document.get("tls_base_url")
    if not isinstance(secure, str):
        return False
    own = _origin(secure)
    return origin == own or (origin[2] == own[2] and origin[1] in LOOPBACK_NAMES and own[1] in LOOPBACK_NAMES)


def _origin(base_url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address. Raises `WrongUsage` for an invalid one."""
    try:
        address = urllib.parse.urlsplit(base_url)
        origin = address.scheme, address.hostname or "", address.port or PORTS[address.scheme]
    except (ValueError, KeyError):
        origin = "", "", 0
    if not origin[1] or not (base_url.isascii() and base_url.isprintable()):
        raise WrongUsage(f"{base_url} is not the URL of a service. Use one such as http://127.0.0.1:8377.")
    return origin


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
        self, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a POST without the fields that are None; return the document. Raises `Failure`, `Unreachable`."""
        return self.request("POST", path, given(body or {}), headers)

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
    ) -> Answer:
        """Send a request and return the document. Raises `Failure` with the service's message, `Unreachable`.

        `repeat` says how to repeat a request whose outcome is unknown.
        """
        status, document, retry_after = self._exchange(method, path, body, headers or {}, repeat or HOW_TO_REPEAT)
        repeats = [repeat] if repeat and status in OUTCOME_UNKNOWN else []
        if document is None or 300 <= status < 400 or not _is_readable(document.get("errors", [])):
            raise Failure(NOT_PAYDESK, *repeats)
        if status == 401 and self._token in tokens(self.credentials.document):
            raise Failure(
                f"The tokens in {self.credentials.file} are not valid at {self._base_url}: the file was written for"
                " another database, or they have expired or were revoked.",
                HOW_TO_RENEW,
            )
        if status >= 400:
            raise _refused(status, document, retry_after, self._hints, repeats)
        return document

    def _exchange(
        self, method: str, path: str, body: Any, headers: Mapping[str, str], repeat: str
    ) -> tuple[int, Answer | None, str]:
        address = urllib.parse.urlsplit(self._base_url)
        connection = self._connection(address.scheme, address.hostname or "", address.port)
        sent = {"User-Agent": f"paydesk/{__version__}", "Authorization": f"Bearer {self._token}", **headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        failure, hint = f"Cannot connect to {self._base_url}", HOW_TO_START
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
        return answer.status, _document(raw), answer.headers.get("Retry-After", "")

    def _connection(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=self.credentials.tls_context())


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
        refuse_other_service(credentials)
        if credentials.file is not None:
            raise WrongUsage(f"{credentials.file} has no operator's token (`operator.token`).", HOW_TO_RENEW)
    return Service(credentials, credentials.operator_token)


def refuse_other_service(credentials: Credentials) -> None:
    """Raise `WrongUsage` if the credentials file is for another service than the one that is addressed."""
    if credentials.other_service:
        raise WrongUsage(
            f"The credentials file is for {credentials.other_service}: its token is not sent to"
            f" {credentials.base_url}.",
            HOW_TO_AUTHENTICATE,
        )


def _document(raw: bytes) -> Answer | None:
    """Return the response's JSON object, empty without a body; None if it is something else."""
    try:
        document = json.loads(raw) if raw else {}
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


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
    if errors[0]["code"] in hints:
        details.append(hints[errors[0]["code"]])
    if retry_after:
        details.append(f"Wait {retry_after} s.")
    return Failure(f"{errors[0]['message']} ({errors[0]['code']})", *details, *repeats)
