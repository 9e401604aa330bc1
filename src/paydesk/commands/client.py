"""The command line as an HTTP client of a running service: its address and token, and one request at a time."""

from __future__ import annotations

import http.client
import json
import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paydesk import __version__
from paydesk.commands.credentials_file import HOW_TO_RENEW, HOW_TO_START, exists, read_document, tokens
from paydesk.commands.failure import Failure, Unreachable, WrongUsage

Answer = Mapping[str, Any]

DEFAULT_FILE = Path(".paydesk/credentials.json")
TIMEOUT_SECONDS = 30
PORTS = {"http": 80, "https": 443}
HOW_TO_AUTHENTICATE = (
    "Authenticate with --credentials FILE or PAYDESK_OPERATOR_TOKEN; `paydesk operators create` creates a token."
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The address of the service, the operator's token, and the credentials file if it is for this service."""

    base_url: str
    operator_token: str
    document: Mapping[str, Any]
    other_service: str = ""
    """The address in the credentials file, if it is for another service; its token is not sent to this one."""
    file: Path | None = None
    """The credentials file, if there is one."""

    def __repr__(self) -> str:
        return f"Credentials({self.base_url})"


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
            f"No service is configured: neither PAYDESK_BASE_URL nor {DEFAULT_FILE} names one.",
            HOW_TO_START,
        )
    origin = _origin(base_url)
    is_another = bool(documented) and origin != _origin(documented)
    used: Mapping[str, Any] = {} if is_another else document
    token = environment.get("PAYDESK_OPERATOR_TOKEN") or used.get("operator", {}).get("token", "")
    return Credentials(base_url.rstrip("/"), token, used, documented if is_another else "", file)


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
    """An HTTP client of the service of the credentials, with one bearer token."""

    def __init__(self, credentials: Credentials, token: str) -> None:
        if not re.fullmatch("[!-~]*", token):
            raise WrongUsage("The token has characters that no token has: spaces, or others than ASCII.", HOW_TO_RENEW)
        self.credentials, self._base_url, self._token = credentials, credentials.base_url, token

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Answer:
        """Send a GET and return the response's document. Raises `Failure`, `Unreachable`."""
        asked = given(query or {})
        return self.request("GET", f"{path}?{urllib.parse.urlencode(asked)}" if asked else path)

    def post(
        self, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a POST without the fields that are None; return the document. Raises `Failure`, `Unreachable`."""
        return self.request("POST", path, given(body or {}), headers)

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a request and return the document. Raises `Failure` with the service's message, `Unreachable`."""
        status, document, retry_after = self._exchange(method, path, body, headers or {})
        if status == 401 and self._token in tokens(self.credentials.document):
            raise Failure(
                f"The tokens in {self.credentials.file} are not valid at {self._base_url}: the file was written for"
                " another database, or they have expired or were revoked.",
                HOW_TO_RENEW,
            )
        if status >= 400:
            raise _refused(status, document, retry_after)
        return document

    def _exchange(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> tuple[int, Answer, str]:
        address = urllib.parse.urlsplit(self._base_url)
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        connection = kind(address.hostname or "", address.port, timeout=TIMEOUT_SECONDS)
        sent = {"User-Agent": f"paydesk/{__version__}", "Authorization": f"Bearer {self._token}", **headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        failure, hint = f"Cannot connect to {self._base_url}", HOW_TO_START
        try:
            connection.connect()
            failure = f"No response from {self._base_url}"
            if method != "GET":
                failure += "; the request may or may not have been applied"
                hint = "Check whether it was applied before you repeat it."
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


def _document(raw: bytes) -> Answer:
    try:
        document = json.loads(raw) if raw else {}
    except ValueError:
        document = None
    if isinstance(document, dict):
        return document
    return {"message": "The response is not from Paydesk. Check the address of the service."}


def _refused(status: int, document: Answer, retry_after: str) -> Failure:
    errors = document.get("errors")
    if not errors:
        return Failure(document.get("message") or f"The service responded with status {status}.")
    details = [detail for error in errors for detail in error.get("details", ())]
    if status == 401:
        details.append(HOW_TO_AUTHENTICATE)
    if errors[0]["code"] == "not_found":
        details.append("Check the address: it must be the one for operators (`operator_listen`).")
    if retry_after:
        details.append(f"Wait {retry_after} s.")
    return Failure(f"{errors[0]['message']} ({errors[0]['code']})", *details)
