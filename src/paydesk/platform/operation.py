"""An operation of the API, and the call that its handler gets. `service/api.py` has the table of all operations."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec
from pydantic import BaseModel

from paydesk.core.clock import Clock
from paydesk.core.errors import PROPERTY_VALUE, ErrorKind, Refusal
from paydesk.core.keys import Keys
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.roles import Required
from paydesk.platform.settings import Settings
from paydesk.platform.shared import Shared
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Database, Transaction

NUMBER_DIGITS_MAX = 15

Scope = Literal["read", "write"]
Surface = Literal[
    "application", "token", "device", "operator", "virtual", "page", "console", "metrics", "operators_public", "public"
]
"""The kind of client, which decides the credential and the format of errors:
`application` an access token of POST /oauth/token · `token` the OAuth endpoints (client credentials in the body, flat
errors) · `device` a terminal's PDT-… · `operator` a PDO-… · `virtual` a PDO-… or a test access token · `page` a
seller's browser (bodies are forms, answers and errors are HTML in its language) · `console` an operator's browser, with
a session · `metrics` Prometheus, with the token of `metrics_token` · `operators_public` no credential, at the
operators' listener alone · `public` no credential."""

TransactionKind = Literal["write", "read", "heavy", "none"]
"""`write` and `read`: the handler is a unit of work in `call.tx`. `heavy`: a read off the hot path. `none`: the handler
runs outside any transaction and uses `call.database` itself (long polls)."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller. For a device `application_id` is 0 and `terminal_id` is set."""

    seller_id: int
    application_id: int = 0
    live: bool = False
    scopes: frozenset[str] = frozenset()
    currency: str = ""
    country: str = ""
    terminal_id: str = ""
    operator_id: str = ""
    role: str = ""
    revoked_ms: int | None = None
    """When a device token was revoked or replaced: from then on it may only report results of earlier orders."""
    session_id: str = ""
    """The session of an operator who signed in; empty with an operator's token."""
    token_digest: bytes = field(default=b"", repr=False)
    """The digest of an access or device token: for rate limits, and for long polls, which check the token again."""


class Answer(msgspec.Struct, frozen=True):
    """A handler's answer: a status, and a body that msgspec can encode (None: no body).

    With `stream` it has no body: its parts are sent as they come, until the client disconnects. The generator ends on
    its own when the node stops (`Signals.stopping`).
    """

    status: int
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = "application/json"
    refusal: Refusal | None = None
    """The refusal behind a page that shows a form again: declared and logged as any other."""
    stream: AsyncGenerator[bytes, None] | None = None


Handled = Answer | Refusal
"""A *returned* refusal is committed with the work done; a raised one rolls it back."""


class Call(msgspec.Struct):
    """A request as its handler gets it: read, bounded, authenticated and validated.

    A struct, as `Answer` is: one is created per request, and a dataclass takes five times as long.
    """

    shared: Shared
    caller: Caller
    now_ms: int
    """The time of the request; in the last phase of a three-phase operation, of that phase."""
    request_id: str
    address: str = ""
    body: Any = None
    """The validated model of `Operation.body`, or None."""
    path: str = ""
    """The path's last parameter, checked and canonical; `paths` has all of them."""
    paths: tuple[str, ...] = ()
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    target: str = ""
    """The path of the request, decoded."""
    query_string: str = ""
    """The query as it was sent, including repeated parameters."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Lower-case names."""
    throttle_counted: bool = False
    """Whether the throttle has counted this request: a unit of work that is retried is not counted again."""
    logged_application_id: int = 0
    logged_seller_id: int = 0
    """The application and seller that a handler authenticated without a bearer, for the request's log line."""
    alert: OperatorEvent | None = None
    """An event for operators. In an operation of transaction kind `write` a handler that returns has recorded it in its
    transaction, and the endpoint logs it after the commit. In all other cases, including a raised refusal, the endpoint
    records it after sending the answer."""
    disconnected: Callable[[], bool] | None = None
    """Returns whether the client has closed its connection; None if the server does not support it."""
    wall_ms: int = 0
    """The machine's time before the unit of work, if it sets a lease: see `read_wall_clock`."""
    _tx: Transaction | None = None

    @property
    def settings(self) -> Settings:
        """Return the settings of this listener."""
        return self.shared.settings

    @property
    def database(self) -> Database:
        """Return the database, for handlers of operations of transaction kind `none`."""
        return self.shared.database

    @property
    def keys(self) -> Keys:
        """Return the server's keys."""
        return self.shared.keys

    @property
    def clock(self) -> Clock:
        """Return the service's clock, which must not be read in a unit of work: that uses `now_ms`."""
        return self.shared.clock

    @property
    def tx(self) -> Transaction:
        """Return the transaction of this unit of work."""
        assert self._tx is not None, "an operation of transaction kind `none` has no transaction"
        return self._tx

    def begin(self, tx: Transaction) -> None:
        """Start the unit of work in `tx`; it may be retried in another transaction."""
        self._tx, self.alert = tx, None

    def read_wall_clock(self) -> None:
        """Set `wall_ms`. Raises `ClockNotTrusted` after a jump, with which a lease could last for days."""
        wall_ms = self.shared.wall.now_ms()
        self.shared.clock.now_ms()
        self.wall_ms = wall_ms


Handler = Callable[[Call], Awaitable[Handled]]
_SENTENCE_END = re.compile(r"[.:;](?:\s|$)")


def first_sentence(docstring: str) -> str:
    """Return the first sentence, to its colon or semicolon if it has one, without its end."""
    return " ".join(_SENTENCE_END.split(docstring, maxsplit=1)[0].split())


class Finish(Protocol):
    """The last phase of a three-phase operation."""

    def __call__(self, call: Call, intent: Any, outcome: Any, /, *, late: bool) -> Awaitable[Handled]:
        """Commit the outcome; `late`: a response was stored meanwhile and will be sent."""


@dataclass(frozen=True, slots=True)
class ThreePhase:
    """An operation that calls an external system; no transaction is held open during the call.

    `begin` is a unit of work that commits the intent with the idempotency key, or refuses. `call` runs outside any
    transaction. `finish` is a unit of work whose response, a refusal included, is stored under the key. If a worker has
    resumed the intent and stored a response meanwhile, that one is sent instead.
    """

    begin: Callable[[Call], Awaitable[Any]]
    call: Callable[[Call, Any], Awaitable[Any]]
    finish: Finish


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the API: routing, authorization, validation, OpenAPI and docs are derived from it.

    `errors` are the domain's own refusals in the order of the checks; `http` adds those that all operations of the
    surface share. Any other refusal is a defect.
    """

    method: str
    path: str
    name: str
    surface: Surface
    handler: Handler | ThreePhase
    summary: str = ""
    """The summary; by default the first sentence of the handler."""
    optimistic_handler: Handler | None = None
    """Does an idempotent operation without looking first whether it may: it only defers what `handler` would write, and
    the statements that rely on something are `required`. If that is not so, nothing is kept and `handler` runs."""
    status: int = 200
    further_statuses: tuple[int, ...] = ()
    """Other success statuses, with the same body; 204 has none."""
    answer: Any = None
    """The type of the answer's body, such as a `core.response.Response`; None without a body."""
    example: Any = None
    scope: Scope | None = None
    """The scope of an application's token; by default, where one is needed, `write`, and `read` for a read."""
    transaction: TransactionKind = "write"
    body: type[BaseModel] | None = None
    raw_body: bool = False
    """Whether the handler gets the body as bytes, limited in size but not parsed."""
    described_body: type[BaseModel] | None = None
    """The model of a raw body, for the docs."""
    body_bytes_max: int | None = None
    """The limit of a body that may be larger than 64 KiB. It is read after all checks that need no body."""
    query: tuple[Query, ...] = ()
    headers: tuple[Query, ...] = ()
    """The operation's own headers, for the docs."""
    conflict_keys: Callable[[Call], tuple[ConflictKey, ...]] | None = None
    """Names of everything that a `write` may change or lock; writes without a common key may share a transaction."""
    idempotent: bool = False
    keys_kept_days_min: int = 0
    """Minimum time that its idempotency keys are kept, also where `idempotency_keep_days` is less."""
    on_behalf: Callable[[Call], Awaitable[Caller]] | None = None
    """Finds the seller on whose behalf an operator calls an idempotent operation: returns the caller with that seller.
    The idempotency key is then the seller's, of application 0."""
    path_pattern: str = ""
    """A regular expression for the path's last parameter, as sent or in upper case; otherwise `invalid_path_param`."""
    errors: tuple[ErrorKind, ...] = ()
    development: bool = False
    """Whether it exists in `paydesk dev` only."""
    loopback_only: bool = False
    """Whether only clients on the same machine may call it, as all development operations without credentials."""
    refuses_test_header: bool = False
    """Whether `X-Test-Token: true`, which requests a test order, is refused with a live token."""
    refuses_repeated: bool = False
    """Whether a query parameter that is sent twice is refused with `property_value`; operators' always are."""
    is_health_check: bool = False
    """Whether `Host` and the clock are not checked: load balancers and Prometheus call it by IP address."""
    role: Required | None = None
    """The operators who may use it; by default `change`, and `every` for a read."""
    action: Any = None
    """The operator's action: `operators.words.Action`. Nothing below looks inside."""
    of_fleet: bool = False
    """Whether all terminals call it at once after an outage: it gets only a share of the requests in the database."""
    is_constant: bool = False
    """Whether the answer needs neither the database nor the clock."""
    description: str = ""
    media_type: str = "application/json"
    further_media_types: tuple[str, ...] = ()
    """Other media types of a success; a parameter chooses one."""

    def __post_init__(self) -> None:
        """Set what follows from other fields."""
        if not self.summary:
            work = self.handler.begin if isinstance(self.handler, ThreePhase) else self.handler
            object.__setattr__(self, "summary", first_sentence(work.__doc__ or ""))
        if self.scope is None and self.surface in ("application", "virtual"):
            object.__setattr__(self, "scope", "read" if self.method == "GET" else "write")
        if self.role is None:
            object.__setattr__(self, "role", "every" if self.method == "GET" else "change")


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter or a header with its JSON schema."""

    name: str
    schema: Mapping[str, Any]
    description: str
    required: bool = False
    shown: Any = None
    """Its form for people: `operators.words.Shown`."""
    canonical: Callable[[str], str] = str
    """Makes the same text of a header's values that request the same under an idempotency key."""
    rule: str = ""
    """The rule of a text that has the schema's pattern."""
    check: Callable[[str], Any] | None = None
    """Returns the value of a text, if the schema does not say all. Raises `ValueError` with the rule it breaks."""

    def parse(self, text: str) -> Any:
        """Return the value of a text: of a boolean 1 or 0. Raises `ValueError` with the rule it breaks."""
        if self.check is not None:
            return self.check(text)
        match self.schema:
            case {"const": str(only)} if text != only:
                raise ValueError(f"must be {only}")
            case {"enum": values} if text not in values:
                raise ValueError(f"must be one of {', '.join(values)}")
            case {"pattern": str(pattern)} if not re.fullmatch(pattern, text, re.ASCII):
                raise ValueError(self.rule)
            case {"type": "boolean"} if text not in {"true", "false"}:
                raise ValueError("must be one of true, false")
            case {"type": "boolean"}:
                return int(text == "true")
            case {"type": "integer"}:
                return self.parse_number(text)
        return text

    def number(self, query: Mapping[str, str]) -> int | None:
        """Return the number sent, or the schema's default (None without one). Raises `property_value`."""
        text = query.get(self.name)
        if text is None:
            default: int | None = self.schema.get("default")
            return default
        try:
            return self.parse_number(text)
        except ValueError as error:
            raise PROPERTY_VALUE.with_reason(self.name, f"'{self.name}' - {error}") from None

    def parse_number(self, text: str) -> int:
        """Return the number that the text is. Raises `ValueError` with the rule it breaks.

        Without a maximum in the schema, numbers of more than 15 digits are cut to 10^15.
        """
        minimum, maximum = self.schema.get("minimum", 0), self.schema.get("maximum")
        if text.isascii() and text.isdigit() and (maximum is None or len(text) <= len(str(maximum))):
            number = int(text) if len(text) <= NUMBER_DIGITS_MAX else 10**NUMBER_DIGITS_MAX
            if minimum <= number and (maximum is None or number <= maximum):
                return number
        bounds = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise ValueError(f"must be a whole number {bounds}")


WAIT = Query(
    "wait",
    {"type": "integer", "minimum": 0, "maximum": 55, "default": 0},
    "Seconds to wait if there is nothing to return yet.",
)
