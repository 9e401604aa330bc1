"""What differs between the surfaces: one `SurfacePolicy` each, which the endpoint, the replies and the docs follow."""

from __future__ import annotations

import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from paydesk.core import errors
from paydesk.core.errors import ErrorKind, Refusal
from paydesk.core.secrets import digest
from paydesk.engine.oauth.bearer import Bearers
from paydesk.engine.oauth.clients import authentication, basic
from paydesk.engine.oauth.clients.authentication import ClientThrottle
from paydesk.engine.oauth.errors import INVALID_REQUEST, invalid_parameter
from paydesk.engine.terminals.bearer import DeviceBearers
from paydesk.platform.http import body, validation
from paydesk.platform.http.error_body import flat, listed
from paydesk.platform.http.rate_limit import BearerRates, CheckRate
from paydesk.platform.http.request import Request
from paydesk.platform.operation import Answer, Caller, Operation, Surface
from paydesk.platform.shared import Shared
from paydesk.platform.web import html

Authenticate = Callable[[str | None, int], Awaitable[Caller]]
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
JSON_AS_FORM = f"The body is JSON, but Content-Type says {FORM}: send Content-Type: {JSON}."
"""For curl, whose default is this Content-Type."""
_START_BYTES = 64


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


def _read_form(operation: Operation, raw: bytes, _caller: Caller, _shared: Shared) -> tuple[Any, Any]:
    return raw, validation.validate_form(operation.body, raw)


def _read_token_request(request: Request, raw: bytes, address: str, shared: Shared) -> Json:
    """Return the body, a form or JSON. The throttle is checked before anything else in it."""
    document: Any = {}
    if raw:
        if request.check_body_headers((JSON, FORM)) == FORM:
            _refuse_json(raw)
            document = body.parse_form(raw, name_fault=invalid_parameter)
        else:
            document = body.parse_json(raw, invalid_parameter)
    if not isinstance(document, dict):
        raise INVALID_REQUEST.with_reason("the body is not an object")
    sent: Json = document
    if any(map(basic.is_basic, request.all("authorization"))):
        sent = _with_header(request, document, address, shared)
    authentication.check_throttled(shared.objects[ClientThrottle], sent, address)
    return sent


def _with_header(request: Request, document: Json, address: str, shared: Shared) -> Json:
    """Return the body with the client's credentials of the header. Raises `invalid_request`."""
    try:
        return basic.with_credentials(document, request.all("authorization"))
    except Refusal:
        # A client with too many failures is refused before anything that is wrong with its request.
        authentication.check_throttled(shared.objects[ClientThrottle], document, address)
        raise


def _refuse_json(form: bytes) -> None:
    """Refuse JSON that was sent as a form, percent-encoded or not: its values would be part of a parameter's name."""
    start = urllib.parse.unquote_to_bytes(form[:_START_BYTES].replace(b"+", b" ")).lstrip()
    if start.startswith((b"{", b"[", b'"')):
        raise INVALID_REQUEST.with_reason("JSON sent as a form", message=JSON_AS_FORM)


def _operators_and_test_tokens(shared: Shared) -> Authenticate:
    """Return the function that authenticates operators and test access tokens."""
    bearers, operators = shared.objects[Bearers], shared.objects[OperatorAuthentication]

    async def authenticate(token: str | None, now_ms: int) -> Caller:
        if token is not None and token.startswith(("PDO-", "PDS-")):
            operator = await operators.caller(token, now_ms)
            return replace(operator, scopes=frozenset(("read", "write")), token_digest=digest(token))
        caller = await bearers.caller(token, now_ms)
        if caller.live:
            raise errors.FORBIDDEN.with_reason(
                "a live token",
                message=f"Virtual terminals take test orders only; {errors.HOW_TO_GET_TEST_TOKENS}.",
            )
        return caller

    return authenticate


@dataclass(frozen=True, slots=True)
class OperatorAuthentication:
    """How an operator is authenticated; composed with the service, as this package knows nothing of operators."""

    caller: Authenticate


@dataclass(frozen=True, slots=True)
class SurfacePolicy:
    """How the endpoints of a surface check requests and format errors."""

    authenticate: Callable[[Shared], Authenticate] | None = None
    """Returns the function that authenticates a bearer token; None: the surface has no bearer tokens."""
    check_rate: Callable[[BearerRates], CheckRate | None] = lambda _: None
    """Returns the function that counts a caller's request, or None without a limit."""
    may_forbid: Callable[[Operation], bool] = lambda _: False
    """Whether an authenticated caller may be forbidden: if suspended, or an operator with a read-only role. A terminal
    never is, because its order must be finished."""

    media_types: tuple[str, ...] = (JSON,)
    read_first: Callable[[Request, bytes, str, Shared], Json] | None = None
    """Reads the body before any header or credential is checked; the handler validates it."""
    read_body: Callable[[Operation, bytes, Caller, Shared], tuple[Any, Any]] = _read_json
    """Returns the parsed body, and what the handler gets: an instance of the operation's model if it has one."""
    query_beside_body: bool = True
    """Whether a request with a body may have query parameters."""
    read_once: frozenset[str] = READ_ONCE
    has_strict_query: bool = False
    """Whether query parameters that are empty or sent twice are refused."""

    malformed: ErrorKind = errors.BAD_REQUEST
    """The refusal of repeated headers and of a query beside a body."""
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
    read_body=_read_form,
    # Browsers do not send malformed forms.
    replaced=dict.fromkeys((errors.JSON_SYNTAX_ERROR, *errors.BODY_FAULTS), errors.BAD_REQUEST),
    error_page=html.error_page,
)
POLICIES: Mapping[Surface, SurfacePolicy] = {
    "application": SurfacePolicy(
        authenticate=lambda shared: shared.objects[Bearers].caller,
        check_rate=lambda rates: rates.check_application,
        may_forbid=lambda _: True,
    ),
    "token": SurfacePolicy(
        media_types=(JSON, FORM),
        read_first=_read_token_request,
        query_beside_body=False,
        read_once=READ_ONCE - IGNORED_BY_TOKENS,
        malformed=INVALID_REQUEST,
        # RFC 6749 section 5.2 requires it.
        replaced=dict.fromkeys(
            (
                errors.PAYLOAD_TOO_LARGE,
                errors.UNSUPPORTED_MEDIA_TYPE,
                errors.JSON_SYNTAX_ERROR,
                errors.UNSUPPORTED_HEADER,
                *errors.BODY_FAULTS,
            ),
            INVALID_REQUEST,
        ),
        error_body=flat,
        error_schema="TokenError",
        headers=NO_STORE,
    ),
    "device": SurfacePolicy(
        authenticate=lambda shared: shared.objects[DeviceBearers].caller,
        check_rate=lambda rates: rates.check_device,
    ),
    "operator": SurfacePolicy(
        has_strict_query=True,
        authenticate=lambda shared: shared.objects[OperatorAuthentication].caller,
        may_forbid=lambda operation: operation.role != "every",
    ),
    "virtual": SurfacePolicy(
        authenticate=_operators_and_test_tokens,
        check_rate=lambda rates: rates.check_application,
        may_forbid=lambda _: True,
    ),
    "page": _PAGES,
    "console": _PAGES,
    "public": SurfacePolicy(),
}


def policy_of_path(path: str) -> SurfacePolicy:
    """Return the policy for the errors of a request that reaches no operation."""
    return POLICIES["token" if path.startswith("/oauth/") else "application"]
