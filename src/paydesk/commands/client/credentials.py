"""The credentials of a command: which service it calls, with which tokens, and which certificate it trusts."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paydesk.commands.client.credentials_file import HOW_TO_RENEW, HOW_TO_START, access_token, exists, read_document
from paydesk.commands.client.failure import Unreachable, WrongUsage

if TYPE_CHECKING:
    import ssl

DEFAULT_FILE = Path(".paydesk/credentials.json")
PORTS = {"http": 80, "https": 443}
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
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
    ca_file: str = ""
    """The CA certificate to trust, if the address is that of `paydesk dev --tls`."""
    file: Path | None = None
    """The credentials file, if there is one."""

    def __repr__(self) -> str:
        return f"Credentials({self.base_url})"

    def tls_context(self) -> ssl.SSLContext | None:
        """Return a TLS context that trusts only `ca_file`, or None without one. Raises `WrongUsage` if unreadable."""
        import ssl

        try:
            return ssl.create_default_context(cafile=self.ca_file) if self.ca_file else None
        except OSError as error:  # ssl.SSLError too.
            raise WrongUsage(
                f"The CA certificate {self.ca_file} of the credentials file cannot be read: {error.strerror}.",
                "Restart `paydesk dev --tls`: it writes the file again.",
            ) from None

    def access_token(self, *, live: bool) -> str:
        """Return the application's test or live token. Raises `WrongUsage` if there is none."""
        token = access_token(self.document, live=live)
        if not token:
            self.refuse_other_service()
            mode = "live" if live else "test"
            raise WrongUsage(f"The credentials have no {mode} token (`{mode}.access_token`).", HOW_TO_RENEW)
        return token

    def refuse_other_service(self) -> None:
        """Raise `WrongUsage` if the credentials file is for another service than the one that is addressed."""
        if self.other_service:
            raise WrongUsage(
                f"The credentials file is for {self.other_service}: its token is not sent to {self.base_url}.",
                HOW_TO_AUTHENTICATE,
            )


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


def public(base_url: str) -> Credentials:
    """Return the address of a service, without a token. Raises `WrongUsage` for an invalid one."""
    _origin(base_url)
    return Credentials(base_url.rstrip("/"), "", {})


def credentials_path(file: Path | None) -> Path:
    """Return the path of the credentials file: `file`, or that of the environment, or the default one."""
    configured = os.environ.get("PAYDESK_CREDENTIALS")
    return file or (Path(configured) if configured else DEFAULT_FILE)


def known_document(file: Path | None) -> Mapping[str, Any]:
    """Return the contents of the credentials file, empty if none is named and there is none."""
    path = credentials_path(file)
    return read_document(path) if file is not None or exists(path) else {}


def _complete(file: Path | None, environment: Mapping[str, str]) -> Credentials:
    document = read_document(file) if file is not None else {}
    documented = str(document.get("base_url", ""))
    base_url = environment.get("PAYDESK_BASE_URL") or documented
    if not base_url:
        raise Unreachable(
            f"No service is configured: neither PAYDESK_BASE_URL nor {file or DEFAULT_FILE} names one.",
            HOW_TO_START,
        )
    origin, is_https = _origin(base_url), False
    if origin[0] == "https" and "tls_base_url" in document:
        # It is the https address of the file's service under any of this machine's names.
        own = _origin(document["tls_base_url"])
        is_https = origin == own or (origin[2] == own[2] and origin[1] in LOOPBACK_NAMES and own[1] in LOOPBACK_NAMES)
    is_another = bool(documented) and not is_https and origin != _origin(documented)
    used: Mapping[str, Any] = {} if is_another else document
    token = environment.get("PAYDESK_OPERATOR_TOKEN") or used.get("operator", {}).get("token", "")
    ca_file = str(document.get("ca_file", "")) if is_https else ""
    return Credentials(base_url.rstrip("/"), token, used, documented if is_another else "", ca_file, file)


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
