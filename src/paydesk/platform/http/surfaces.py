"""What differs between the surfaces: one `SurfacePolicy` each, which the endpoint, the replies and the docs follow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from paydesk.core import errors
from paydesk.core.errors import ErrorKind, Refusal
from paydesk.platform.http import body, validation
from paydesk.platform.http.error_body import flat, listed
from paydesk.platform.http.rate_limit import BearerRates, CheckRate
from paydesk.platform.http.request import Request
from paydesk.platform.operation import Answer, Caller, Operation, Surface
from paydesk.platform.shared import Shared
from paydesk.platform.web import html

Authenticate = Callable[[str | None, int], Awaitable[Caller]]
ReadFirst = Callable[[Request, bytes, str, Shared], dict[str, Any]]
Json = dict[str, Any]

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
NO_STORE = (("cache-control", "no-store"), ("pragma", "no-cache"))
READ_ONCE = frozenset(
    {
        "authorization",
        "content-type",
        "content-encoding",
        "origin",
        "x-idempotency-key",
        "x-allow-cancelable-status",
        "x-test-token",
        "x-request-id",
    }
)
"""Headers that must not be repeated: proxies disagree about which value is used."""
IGNORED_BY_TOKENS = frozenset({"authorization", "x-idempotency-key"})
"""Official clients send these headers on every request; the token endpoints ignore them, repeated ones too, but not
`Authorization: Basic`."""


def _read_json(operation: Operation, raw: bytes, caller: Caller, shared: Shared) -> tuple[Any, Any]:
    raw = raw or b"{}"  # A missing body counts as an empty object; the model reports missing fields.
    document = body.parse_json(raw)
    if operation.body is None:
        return document, document
    context = {
        "currency": caller.currency,
        "amount_minor_min": shared.settings.order_amount_minor_min,
        "loopback_allowed": shared.development,
        "references_checked": shared.settings.card_numbers_refused_in_references,
    }
    model, faults = validation.validate(operation.body, document, raw, context)
    if faults:
        raise validation.refused(faults)
    return document, model


@dataclass(frozen=True, slots=True)
class Callers:
    """The functions that recognize callers, by surface, which the service hands in: they look tokens up."""

    authenticate: Mapping[Surface, Authenticate]
    """Returns the caller with that bearer token at a time. Raises `UNAUTHORIZED` and the like."""
    read_first: Mapping[Surface, ReadFirst]
    """Reads the body before headers and credentials are checked; the handler validates it."""

    def __post_init__(self) -> None:
        """Let no service start that lacks the function of a surface."""
        with_credential = {surface for surface, policy in POLICIES.items() if policy.credential is not None}
        read_first = {surface for surface, policy in POLICIES.items() if policy.reads_first}
        if set(self.authenticate) != with_credential or set(self.read_first) != read_first:
            raise LookupError("A surface has no function that recognizes its callers, or one too many.")


@dataclass(frozen=True, slots=True)
class Credential:
    """The bearer token of a surface."""

    needed: str
    """The credential that a refusal asks for."""
    prefixes: tuple[str, ...]
    """The beginnings of the tokens that it accepts."""
    described: str
    """Its description in the OpenAPI document."""


@dataclass(frozen=True, slots=True)
class SurfacePolicy:
    """How the endpoints of a surface check requests and format errors."""

    description: str = ""
    """The description in the OpenAPI document; the console has none."""
    credential: Credential | None = None
    """None: the surface has no bearer tokens."""
    check_rate: Callable[[BearerRates], CheckRate | None] = lambda _: None
    """Returns the function that counts a caller's request, or None without a limit."""
    may_forbid: Callable[[Operation], bool] = lambda _: False
    """Whether an authenticated caller may be forbidden: if suspended, or an operator with a read-only role. A terminal
    never is, because its order must be finished."""

    media_types: tuple[str, ...] = (JSON,)
    read_body: Callable[[Operation, bytes, Caller, Shared], tuple[Any, Any]] = _read_json
    """Returns the parsed body, and what the handler gets: an instance of the operation's model if it has one."""
    reads_first: bool = False
    """The body is read before headers and credentials are checked."""
    query_beside_body: bool = True
    """Whether a request with a body may have query parameters."""
    read_once: frozenset[str] = READ_ONCE
    has_strict_query: bool = False
    """Whether query parameters that are empty or sent twice are refused."""

    malformed: ErrorKind = errors.BAD_REQUEST
    """The refusal of repeated headers and of a query beside a body."""
    refused_secret: ErrorKind | None = None
    """The refusal of a client's secret. It is answered so that its duration reveals nothing."""
    replaced: Mapping[ErrorKind, ErrorKind] = field(default_factory=dict)
    """Refusals that this surface answers as another."""
    error_body: Callable[[Refusal], Json] = listed
    error_schema: str = "Error"
    """The schema of `error_body` in the OpenAPI document."""
    error_page: Callable[[Refusal, Mapping[str, str]], Answer] | None = None
    """Returns the page, in the language of the request's headers, that is sent instead of `error_body`."""
    headers: tuple[tuple[str, str], ...] = ()
    """Added to every response."""


_PAGES = SurfacePolicy(
    media_types=(FORM,),
    read_body=lambda operation, raw, _caller, _shared: (raw, validation.validate_form(operation.body, raw)),
    # Browsers do not send malformed forms.
    replaced=dict.fromkeys((errors.JSON_SYNTAX_ERROR, *errors.BODY_FAULTS), errors.BAD_REQUEST),
    error_page=html.error_page,
)
POLICIES: Mapping[Surface, SurfacePolicy] = {
    "token": SurfacePolicy(
        description=("OAuth endpoints: an application authenticates in the body and gets a token to act for a seller."),
        media_types=(JSON, FORM),
        reads_first=True,
        query_beside_body=False,
        read_once=READ_ONCE - IGNORED_BY_TOKENS,
        malformed=errors.INVALID_REQUEST,
        refused_secret=errors.INVALID_CLIENT,
        # RFC 6749 section 5.2 requires it.
        replaced=dict.fromkeys(
            (
                errors.PAYLOAD_TOO_LARGE,
                errors.UNSUPPORTED_MEDIA_TYPE,
                errors.JSON_SYNTAX_ERROR,
                errors.UNSUPPORTED_HEADER,
                *errors.BODY_FAULTS,
            ),
            errors.INVALID_REQUEST,
        ),
        error_body=flat,
        error_schema="TokenError",
        headers=NO_STORE,
    ),
    "page": replace(
        _PAGES,
        description=(
            "Pages for a seller's browser: bodies are forms; answers and errors are HTML in the browser's language."
        ),
    ),
    "application": SurfacePolicy(
        description="Orders and terminals, for an application that acts for a seller.",
        credential=Credential(
            "an access token (APP_USR-… or TEST-…) of POST /oauth/token",
            ("APP_USR-", "TEST-"),
            "An access token of `POST /oauth/token`, `APP_USR-…` or `TEST-…`, with the required scope.",
        ),
        check_rate=lambda rates: rates.check_application,
        may_forbid=lambda _: True,
    ),
    "device": SurfacePolicy(
        description="Operations for card terminals, which open all connections themselves.",
        credential=Credential("the terminal's own token (PDT-…)", ("PDT-",), "A terminal's own token, `PDT-…`."),
        check_rate=lambda rates: rates.check_device,
    ),
    "operator": SurfacePolicy(
        description="Operations for operators; the command line is a client of them.",
        credential=Credential("an operator's token (PDO-…)", ("PDO-", "PDS-"), "An operator's token, `PDO-…`."),
        has_strict_query=True,
        may_forbid=lambda operation: operation.role != "every",
    ),
    "virtual": SurfacePolicy(
        description="Virtual terminals of `paydesk dev`, driven step by step by a test of the seller's application.",
        credential=Credential(
            "a test access token (TEST-…) or an operator's token (PDO-…)",
            ("TEST-", "APP_USR-", "PDO-", "PDS-"),
            "A test access token, `TEST-…`, with the required scope, or an operator's token, `PDO-…`.",
        ),
        check_rate=lambda rates: rates.check_application,
        may_forbid=lambda _: True,
    ),
    "metrics": SurfacePolicy(
        description="The state of the service, for Prometheus.",
        credential=Credential(
            "the token that the setting metrics_token names", (), "The token that the setting `metrics_token` names."
        ),
        check_rate=lambda rates: rates.check_application,
    ),
    "public": SurfacePolicy(description="Operations without authentication."),
    "operators_public": SurfacePolicy(),
    "console": _PAGES,
}
"""In the order of the OpenAPI document."""


def policy_of_path(path: str) -> SurfacePolicy:
    """Return the policy for the errors of a request that reaches no operation."""
    return POLICIES["token" if path.startswith("/oauth/") else "application"]
