"""What an application asks for at `GET /authorization`, and everything that can be wrong with it, in order. Pure."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass

from paydesk.core import card_numbers
from paydesk.core.text import has_forbidden
from paydesk.oauth import scopes
from paydesk.oauth.clients.application import Application
from paydesk.oauth.consent.errors import (
    APPLICATION_SUSPENDED,
    DOUBLED_PARAMETER,
    UNKNOWN_APPLICATION,
    UNREGISTERED_ADDRESS,
)
from paydesk.oauth.scopes import ScopeError

PATH = "/authorization"
STATE_CHARACTERS_MAX = 2048
S256 = "S256"

_BARE = "!$'()*,-./:;?@_~"
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
# Bytes that are not UTF-8 are decoded to these.
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Asked:
    """The parameters of an authorization; what is absent or empty is an empty string (RFC 6749 section 3.1)."""

    client_id: str = ""
    redirect_uri: str = ""
    response_type: str = ""
    scope: str = ""
    state: str = ""
    code_challenge: str = ""
    code_challenge_method: str = ""

    def path(self) -> str:
        """The authorization as a path of this service, to come back to."""
        said = {name: value for name in self.__slots__ if (value := getattr(self, name))}
        # What needs no escape is sent as it is: the path is to be no longer than what came.
        return f"{PATH}?{_encoded(said, safe=_BARE)}"


@dataclass(frozen=True, slots=True)
class Check:
    """One fault that the application is told: its code, a sentence, and whether `asked` has it."""

    error: str
    description: str
    finds: Callable[[Asked, Application], bool]


CHECKS = (
    Check(
        "invalid_request",
        f"state is longer than {STATE_CHARACTERS_MAX} characters.",
        lambda asked, _: len(asked.state) > STATE_CHARACTERS_MAX,
    ),
    Check(
        "invalid_request",
        "state has control characters or invisible characters, or is not UTF-8.",
        lambda asked, _: has_forbidden(asked.state) or _SURROGATE.search(asked.state) is not None,
    ),
    Check("invalid_request", "response_type is missing.", lambda asked, _: not asked.response_type),
    Check(
        "invalid_request",
        "code_challenge and code_challenge_method go together.",
        lambda asked, _: bool(asked.code_challenge) != bool(asked.code_challenge_method),
    ),
    Check(
        "invalid_request",
        "code_challenge is missing: this application must use PKCE.",
        lambda asked, application: application.pkce_required and not asked.code_challenge,
    ),
    Check(
        "invalid_request",
        "code_challenge_method must be S256.",
        lambda asked, _: asked.code_challenge_method.upper() not in ("", S256),
    ),
    Check(
        "invalid_request",
        "code_challenge must be 43 characters of base64url.",
        lambda asked, _: bool(asked.code_challenge) and _CHALLENGE.fullmatch(asked.code_challenge) is None,
    ),
    Check(
        "invalid_request",
        "code_challenge must not contain a card number.",
        lambda asked, _: card_numbers.carries(asked.code_challenge),
    ),
    Check("unsupported_response_type", "response_type must be code.", lambda asked, _: asked.response_type != "code"),
    Check(
        "invalid_scope",
        "scope is malformed, doubled or unknown; known: offline_access, read, write.",
        lambda asked, application: scope(asked, application) is None,
    ),
    Check(
        "invalid_scope",
        "scope is wider than this application may ask for.",
        lambda asked, application: not scopes.includes(application.scopes, *(scope(asked, application) or "").split()),
    ),
)
"""In the order in which they are made; the first that finds something is told."""

CARD_NUMBER_AS_STATE = Check(
    "invalid_request",
    "state must not contain a card number; a random value of letters and digits does not.",
    lambda asked, _: card_numbers.carried_by_reference(asked.state),
)
"""Made where card numbers are refused in references, by a setting."""


def read(query_string: str) -> Asked:
    """The parameters of a query; unknown ones are left aside. Raises DOUBLED_PARAMETER."""
    pairs = urllib.parse.parse_qsl(query_string, keep_blank_values=True, errors="surrogateescape")
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise DOUBLED_PARAMETER.with_reason("a parameter was sent twice")
    return Asked(**{name: value for name, value in pairs if name in Asked.__slots__})


def known(asked: Asked, application: Application | None) -> Application:
    """The application, where its seller may be sent back to it.

    Raises UNKNOWN_APPLICATION, UNREGISTERED_ADDRESS or APPLICATION_SUSPENDED.
    """
    if application is None:
        raise UNKNOWN_APPLICATION.with_reason("unknown client")
    if asked.redirect_uri not in application.redirect_uris:
        raise UNREGISTERED_ADDRESS.with_reason(
            "redirect_uri not registered" if asked.redirect_uri else "no redirect_uri"
        )
    if application.suspended_ms is not None:
        raise APPLICATION_SUSPENDED.with_reason("application suspended")
    return application


def fault(asked: Asked, application: Application, *, references_checked: bool = False) -> Check | None:
    """Return the first of the `CHECKS` that finds something, or None."""
    checks = (*CHECKS, CARD_NUMBER_AS_STATE) if references_checked else CHECKS
    return next((check for check in checks if check.finds(asked, application)), None)


def scope(asked: Asked, application: Application) -> str | None:
    """What is asked for, in alphabetical order; None where it is malformed."""
    if not asked.scope:
        return application.scopes
    try:
        return scopes.canonical(asked.scope)
    except ScopeError:
        return None


def back(redirect_uri: str, *, state: str | None, issuer: str, **said: str) -> str:
    """The application's address with what it is told (RFC 6749 section 4.1.2, RFC 9207); its own query is kept."""
    pairs = {**said, **({"state": state} if state else {}), "iss": issuer}
    separator = "?" if "?" not in redirect_uri else "" if redirect_uri[-1] in "?&" else "&"
    return f"{redirect_uri}{separator}{_encoded(pairs)}"


def host(redirect_uri: str) -> str:
    """The part of an address by which a seller knows where it leads."""
    parts = urllib.parse.urlsplit(redirect_uri)
    return parts.netloc.rpartition("@")[2] or f"{parts.scheme}:"


def _encoded(pairs: dict[str, str], safe: str = "") -> str:
    return urllib.parse.urlencode(pairs, safe=safe, errors="surrogateescape", quote_via=urllib.parse.quote)
