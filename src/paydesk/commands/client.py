"""The command line as a client of a running service: where it is, with which token, and one request at a time."""

from __future__ import annotations

import http.client
import json
import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paydesk import __version__
from paydesk.commands.failure import Failure, Unreachable, WrongUsage

DEFAULT_FILE = Path(".paydesk/credentials.json")
TIMEOUT_SECONDS = 30
PORTS = {"http": 80, "https": 443}
HOW_TO_START = (
    "Start one with `paydesk dev`, or say where it is: --credentials FILE, or PAYDESK_BASE_URL and"
    " PAYDESK_OPERATOR_TOKEN."
)

HOW_TO_BE_KNOWN = (
    "Say who you are: --credentials FILE, or PAYDESK_OPERATOR_TOKEN; `paydesk operators create` makes a token."
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the service is, and what the credentials file says beside it; nothing where that is about another one."""

    base_url: str
    operator_token: str
    document: Mapping[str, Any]
    kept_for: str = ""
    """The other service whose token the file has: it is not sent to this one."""

    def __repr__(self) -> str:
        return f"Credentials({self.base_url})"


def find(file: Path | None, environment: Mapping[str, str] = os.environ) -> Credentials:
    """The credentials of `file`; without it the environment's, over those of the default file.

    What a file says is for the service that it names, and left aside where the environment names another one. Raises
    `Unreachable` where there are none, `WrongUsage` where they can't be read.
    """
    if file is not None:
        return _complete(_read(file), {})
    chosen = environment.get("PAYDESK_CREDENTIALS")
    path = Path(chosen) if chosen else DEFAULT_FILE
    return _complete(_read(path) if chosen or path.exists() else {}, environment)


def _complete(document: Mapping[str, Any], environment: Mapping[str, str]) -> Credentials:
    documented = str(document.get("base_url", ""))
    base_url = environment.get("PAYDESK_BASE_URL") or documented
    if not base_url:
        raise Unreachable(f"No service is known: there is no {DEFAULT_FILE}.", HOW_TO_START)
    origin = _origin(base_url)
    is_another = bool(documented) and origin != _origin(documented)
    said: Mapping[str, Any] = {} if is_another else document
    token = environment.get("PAYDESK_OPERATOR_TOKEN") or said.get("operator", {}).get("token", "")
    return Credentials(base_url.rstrip("/"), token, said, documented if is_another else "")


def _origin(base_url: str) -> tuple[str, str, int]:
    """Whom an address is of. Raises `WrongUsage` where it is none."""
    try:
        address = urllib.parse.urlsplit(base_url)
        origin = address.scheme, address.hostname or "", address.port or PORTS[address.scheme]
    except (ValueError, KeyError):
        origin = "", "", 0
    if not origin[1]:
        raise WrongUsage(f"{base_url} is not the address of a service; one looks like http://127.0.0.1:8377.")
    return origin


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        raise Unreachable(f"{path}: there is no such credentials file.", HOW_TO_START) from None
    except OSError as error:
        raise WrongUsage(f"{path}: cannot be read: {error.strerror}.") from None
    except ValueError:
        raise WrongUsage(f"{path}: is not a credentials file.") from None
    if not isinstance(document, dict) or not isinstance(document.get("operator", {}), dict):
        raise WrongUsage(f"{path}: is not a credentials file.")
    return document


class Service:
    """A running service, called with one bearer token."""

    def __init__(self, base_url: str, token: str) -> None:
        self._base_url, self._token = base_url, token

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """The answer's document. Raises `Failure`, `Unreachable`."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return self.request("GET", f"{path}?{urllib.parse.urlencode(given)}" if given else path)

    def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        """The answer's document; fields that are None are not sent. Raises `Failure`, `Unreachable`."""
        return self.request("POST", path, {k: v for k, v in body.items() if v is not None}, headers or {})

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """One request and its answer's document. Raises `Failure` with the service's own words, `Unreachable`."""
        status, document = self._exchange(method, path, body, headers or {})
        if status >= 400:
            raise _refused(status, document)
        return document

    def _exchange(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> tuple[int, Any]:
        address = urllib.parse.urlsplit(self._base_url)
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        connection = kind(address.hostname or "", address.port, timeout=TIMEOUT_SECONDS)
        sent = {"User-Agent": f"paydesk/{__version__}", "Authorization": f"Bearer {self._token}", **headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unreachable(f"Nobody answers at {self._base_url}: {reason}.", HOW_TO_START) from None
        finally:
            connection.close()
        return answer.status, _document(raw)


def segment(text: str) -> str:
    """What a person typed, as one part of a path."""
    if not text:
        raise WrongUsage("An id must not be empty.")
    return urllib.parse.quote(text, safe="")


def changes(**given: Any) -> dict[str, Any]:
    """What was given to be changed. Raises `WrongUsage` where that is nothing."""
    found = {name: value for name, value in given.items() if value is not None}
    if not found:
        raise WrongUsage("Nothing is to be changed: say what, see --help.")
    return found


def operators(file: Path | None) -> Service:
    """The service, called as the operator of the credentials."""
    return as_operator(find(file))


def as_operator(known: Credentials) -> Service:
    """The service, called as the operator. Raises `WrongUsage` where the only token is one of another service."""
    if known.kept_for and not known.operator_token:
        raise WrongUsage(
            f"The credentials file is for {known.kept_for}: its token is not sent to {known.base_url}.", HOW_TO_BE_KNOWN
        )
    return Service(known.base_url, known.operator_token)


def _document(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else {}
    except ValueError:
        return {"message": "The answer is not Paydesk's: is this the right address?"}


def _refused(status: int, document: Any) -> Failure:
    errors = document.get("errors") if isinstance(document, dict) else None
    if not errors:
        message = document.get("message") if isinstance(document, dict) else None
        return Failure(message or f"The service answered {status}.")
    details = [detail for error in errors for detail in error.get("details", ())]
    if status == 401:
        details.append(HOW_TO_BE_KNOWN)
    return Failure(f"{errors[0]['message']} ({errors[0]['code']})", *details)
