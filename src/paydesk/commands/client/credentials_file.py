"""The contents of the credentials file: the type of each member, its tokens and its terminals.

A member may be missing, as in a file of an earlier version; the command that needs it says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paydesk.commands.client.failure import Failure, Unreachable, WrongUsage

HOW_TO_RENEW = (
    "Name the right file: --credentials FILE or PAYDESK_CREDENTIALS. `paydesk dev` renews its own when it starts again."
)
HOW_TO_START = (
    "Start a service with `paydesk dev`, or name a running one: --credentials FILE, or PAYDESK_BASE_URL and"
    " PAYDESK_OPERATOR_TOKEN."
)

_TOKENS = {"access_token": str, "refresh_token": str}
MEMBERS: Mapping[str, Any] = {
    "base_url": str,
    "tls_base_url": str,
    "ca_file": str,
    "client_id": str,
    "client_secret": str,
    "redirect_uri": str,
    "seller": {"user_id": int, "email": str, "password": str},
    "test": _TOKENS,
    "live": _TOKENS,
    "terminals": [{"id": str, "operating_mode": str, "script": str, "page_url": str}],
    "webhook": {"url": str, "secret": str, "inbox_url": str},
    "operator": {"token": str, "email": str, "password": str},
    "console_url": str,
    "test_application": {"client_id": str, "client_secret": str, "redirect_uri": str},
}
"""The members that commands read. Other programs may keep more in the file."""
_NAMES = {str: "a text", int: "a whole number"}


def exists(path: Path) -> bool:
    """Return whether there is such a file, also if it cannot be read."""
    try:
        path.stat()
    except OSError as error:
        return not isinstance(error, FileNotFoundError | NotADirectoryError)
    return True


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the contents of a credentials file; members that are null are missing.

    Raises `Unreachable` if the file does not exist, `WrongUsage` if it is not a credentials file.
    """

    def without_null(members: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value for name, value in members if value is not None}

    try:
        document = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=without_null)
    except FileNotFoundError:
        raise Unreachable(f"The credentials file {path} does not exist.", HOW_TO_START) from None
    except OSError as error:
        raise WrongUsage(f"The credentials file {path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise WrongUsage(f"{path} is not a credentials file: it is not JSON.", HOW_TO_RENEW) from None
    if not isinstance(document, dict):
        raise WrongUsage(f"{path} is not a credentials file: it has no members.", HOW_TO_RENEW)
    for fault in _faults(document, MEMBERS, ""):
        raise WrongUsage(f"{path} is not a credentials file: {fault}.", HOW_TO_RENEW)
    return document


def access_token(document: Mapping[str, Any], *, live: bool) -> str:
    """Return the application's test or live token, empty if there is none."""
    return str(document.get("live" if live else "test", {}).get("access_token", ""))


def tokens(document: Mapping[str, Any]) -> set[str]:
    """Return the bearer tokens of the file."""
    operator = document.get("operator", {}).get("token", "")
    return {access_token(document, live=False), access_token(document, live=True), operator} - {""}


def tokens_refused(file: Path | None, base_url: str) -> Failure:
    """Return the failure of a command whose token of the file the service refuses."""
    return Failure(
        f"The tokens in {file} are not valid at {base_url}: the file was written for another database, or they have"
        " expired or were revoked.",
        HOW_TO_RENEW,
        "At any other service, refresh the token at POST /oauth/token and write the new one into the file.",
    )


def unattended_terminal(document: Mapping[str, Any]) -> str | None:
    """Return the first terminal that needs no person, else the first one; None if the file has no terminal."""
    terminals = document.get("terminals") or [{}]
    chosen: Mapping[str, str] = next((one for one in terminals if one.get("script") != "manual"), terminals[0])
    return chosen.get("id")


def _faults(value: Any, shape: Any, place: str) -> Iterator[str]:
    """Yield what is wrong with a value; the messages do not contain it."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            yield f"`{place}` must be an object"
            return
        for name in shape.keys() & value.keys():
            yield from _faults(value[name], shape[name], f"{place}.{name}" if place else name)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"`{place}` must be a list"
            return
        for number, one in enumerate(value):
            yield from _faults(one, shape[0], f"{place}[{number}]")
            if isinstance(one, dict) and "id" not in one:
                yield f"`{place}[{number}].id` is missing"
    elif not isinstance(value, shape) or isinstance(value, bool):
        yield f"`{place}` must be {_NAMES[shape]}"
    elif isinstance(value, str) and not value.isprintable():
        yield f"`{place}` has characters that cannot be printed"
