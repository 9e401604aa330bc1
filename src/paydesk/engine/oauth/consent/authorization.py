"""The authorization request (RFC 6749 section 4.1.1) and its checks, in order. No input or output."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass

from paydesk.core.text import card_numbers
from paydesk.core.text.characters import has_forbidden
from paydesk.engine.oauth import scopes
from paydesk.engine.oauth.clients.authentication import Application
from paydesk.engine.oauth.errors import (
    APPLICATION_SUSPENDED,
    DOUBLED_PARAMETER,
    UNKNOWN_APPLICATION,
    UNREGISTERED_ADDRESS,
)
from paydesk.engine.oauth.scopes import ScopeError

PATH = "/authorization"
STATE_CHARACTERS_MAX = 2048
S256 = "S256"
INVALID = "invalid_request"

_UNESCAPED = "!$'()*,-./:;?@_~"
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
# The query is decoded with surrogateescape: bytes that are not UTF-8 become these.
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """The parameters of an authorization request; a missing or empty one is an empty string (RFC 6749 section 3.1)."""

    client_id: str = ""
    redirect_uri: str = ""
    response_type: str = ""
    scope: str = ""
    state: str = ""
    code_challenge: str = ""
    code_challenge_method: str = ""

    def path(self) -> str:
        """Return the request as a path of this service, to return to after sign-in."""
        parameters = {name: value for name in self.__slots__ if (value := getattr(self, name))}
        # Escaping as little as possible keeps the path no longer than the original.
        return f"{PATH}?{_encoded(parameters, safe=_UNESCAPED)}"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of an authorization request: the error and the description that the application gets."""

    error: str
    description: str


def read(query_string: str) -> AuthorizationRequest:
    """Return the parameters of a query; unknown ones are ignored. Raises DOUBLED_PARAMETER."""
    pairs = urllib.parse.parse_qsl(query_string, keep_blank_values=True, errors="surrogateescape")
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise DOUBLED_PARAMETER.with_reason("a parameter was sent twice")
    return AuthorizationRequest(**{name: value for name, value in pairs if name in AuthorizationRequest.__slots__})


def check_client(request: AuthorizationRequest, application: Application | None) -> Application:
    """Return the application if the browser may be redirected to it, also with an error.

    Raises UNKNOWN_APPLICATION, UNREGISTERED_ADDRESS or APPLICATION_SUSPENDED.
    """
    if application is None:
        raise UNKNOWN_APPLICATION.with_reason("unknown client")
    if request.redirect_uri not in application.redirect_uris:
        raise UNREGISTERED_ADDRESS.with_reason(
            "redirect_uri not registered" if request.redirect_uri else "no redirect_uri"
        )
    if application.suspended_ms is not None:
        raise APPLICATION_SUSPENDED.with_reason("application suspended")
    return application


def find_fault(
    request: AuthorizationRequest, application: Application, *, references_checked: bool = False
) -> Fault | None:
    """Return the first fault of the request, or None. `references_checked`: the state is checked for card numbers."""
    fault = next(_faults(request, application), None)
    if fault is None and references_checked and card_numbers.carried_by_reference(request.state):
        return Fault(INVALID, "state must not contain a card number. Use a random value of letters and digits.")
    return fault


def _faults(request: AuthorizationRequest, application: Application) -> Iterator[Fault]:
    """Yield the faults of the request in the order in which they are checked."""
    if len(request.state) > STATE_CHARACTERS_MAX:
        yield Fault(INVALID, f"state is longer than {STATE_CHARACTERS_MAX} characters.")
    if has_forbidden(request.state) or _SURROGATE.search(request.state):
        yield Fault(INVALID, "state has control characters or invisible characters, or is not UTF-8.")
    if not request.response_type:
        yield Fault(INVALID, "response_type is missing.")
    yield from _challenge_faults(request, application)
    if request.response_type != "code":
        yield Fault("unsupported_response_type", "response_type must be code.")
    requested = scope(request, application)
    if requested is None:
        yield Fault("invalid_scope", "scope is malformed, repeated or unknown. Scopes: offline_access, read, write.")
    elif not scopes.includes(application.scopes, *requested.split()):
        yield Fault("invalid_scope", "scope is wider than this application may ask for.")


def _challenge_faults(request: AuthorizationRequest, application: Application) -> Iterator[Fault]:
    challenge, method = request.code_challenge, request.code_challenge_method
    if bool(challenge) != bool(method):
        yield Fault(INVALID, "code_challenge and code_challenge_method go together.")
    if application.pkce_required and not challenge:
        yield Fault(INVALID, "code_challenge is missing: this application must use PKCE.")
    if method.upper() not in ("", S256):
        yield Fault(INVALID, "code_challenge_method must be S256.")
    if challenge and _CHALLENGE.fullmatch(challenge) is None:
        yield Fault(INVALID, "code_challenge must be 43 characters of base64url.")
    if card_numbers.carries(challenge):
        yield Fault(INVALID, "code_challenge must not contain a card number.")


def scope(request: AuthorizationRequest, application: Application) -> str | None:
    """Return the requested scopes in alphabetical order, by default all of the application's; None if malformed."""
    if not request.scope:
        return application.scopes
    try:
        return scopes.canonical(request.scope)
    except ScopeError:
        return None


def response_uri(redirect_uri: str, *, state: str | None, issuer: str, **parameters: str) -> str:
    """Return the redirect URI with the response (RFC 6749 section 4.1.2, RFC 9207) added to its own query."""
    pairs = {**parameters, **({"state": state} if state else {}), "iss": issuer}
    separator = "?" if "?" not in redirect_uri else "" if redirect_uri[-1] in "?&" else "&"
    return f"{redirect_uri}{separator}{_encoded(pairs)}"


def host(redirect_uri: str) -> str:
    """Return the part of a redirect URI by which a seller recognises the site."""
    parts = urllib.parse.urlsplit(redirect_uri)
    return parts.netloc.rpartition("@")[2] or f"{parts.scheme}:"


def _encoded(pairs: dict[str, str], safe: str = "") -> str:
    return urllib.parse.urlencode(pairs, safe=safe, errors="surrogateescape", quote_via=urllib.parse.quote)
