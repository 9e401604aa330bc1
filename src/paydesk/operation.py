"""What an endpoint is, and what its handler is given. The table of all of them is `api.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from paydesk.core.errors import PROPERTY_VALUE, ErrorKind, Refusal

if TYPE_CHECKING:
    from pydantic import BaseModel

    from paydesk.core.clock import Clock
    from paydesk.core.keys import Keys
    from paydesk.operator_events import OperatorEvent
    from paydesk.settings import Settings
    from paydesk.storage.database import Database, Transaction

NUMBER_DIGITS_MAX = 15

Scope = Literal["read", "write"]
Surface = Literal["application", "token", "device", "operator", "page", "public"]
"""Who calls, and so which credential opens the door and which shape an error has:
`application` a bearer of POST /oauth/token · `token` the OAuth endpoints (client credentials in the body, flat errors)
· `device` a terminal's PDT-… · `operator` a PDO-… · `page` a seller's browser (bodies are forms, answers and errors are
HTML in its language) · `public` nobody in particular."""

TransactionKind = Literal["write", "read", "heavy", "none"]
"""`write` and `read`: the handler is a unit of work, `call.tx` its transaction. `heavy`: a read beside the hot path.
`none`: the handler runs outside any transaction and uses `call.database` itself (long polls)."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as the bearer says. For a device `application_id` is 0 and `terminal_id` is set."""

    seller_id: int
    application_id: int = 0
    live: bool = False
    scopes: frozenset[str] = frozenset()
    currency: str = ""
    country: str = ""
    terminal_id: str = ""
    operator_id: str = ""
    role: str = ""
    revoked: bool = False
    """A device token that was revoked or replaced: good for results of its own leases alone."""
    token_digest: bytes = field(default=b"", repr=False)
    """Of an access token, whose requests are counted; of a device's, for which a poll that waits looks again."""


class Answer(msgspec.Struct, frozen=True):
    """What a handler answers: a status, and a body that msgspec can write (None: no body)."""

    status: int
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = "application/json"
    refusal: Refusal | None = None
    """What a page refuses in its own way, a form that is shown again: declared and logged as any other refusal."""


Handled = Answer | Refusal
"""A refusal that is *returned* is committed with what was done; one that is raised undoes it."""


class Call(msgspec.Struct):
    """One request as its handler sees it: everything already read, bounded, authenticated and validated.

    A struct, as `Answer` is: one is made for every request, and a dataclass takes five times as long.
    """

    settings: Settings
    database: Database
    keys: Keys
    caller: Caller
    now_ms: int
    request_id: str
    clock: Clock
    state: Mapping[str, Any]
    """What the process shares beside the database (the gateway's offers, the virtual terminals); empty in most."""
    address: str = ""
    body: Any = None
    """The validated model of `Operation.body`, or None."""
    path: str = ""
    """The path's one parameter, checked and canonical; further ones are in `paths`."""
    paths: tuple[str, ...] = ()
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    query_string: str = ""
    """The query as it was sent: shows what was sent twice."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Lower-case names."""
    counted: bool = False
    """Whether the throttle has counted it: a unit of work that runs again is not counted again."""
    logged_application_id: int = 0
    logged_seller_id: int = 0
    """The application and seller that a handler authenticated without a bearer, for the request's line in the log."""
    alert: OperatorEvent | None = None
    """What operators are to learn of this request. In an operation of transaction kind `write` a handler that returns
    has recorded it in its transaction, and the adapter logs it after the commit. In all other cases, and where the
    transaction is rolled back by a refusal that is raised, the adapter records it once the answer is sent."""
    gone: Callable[[], bool] | None = None
    """Whether the client has closed its connection; None where the server can't say."""
    _tx: Transaction | None = None

    @property
    def tx(self) -> Transaction:
        """The transaction of this unit of work."""
        assert self._tx is not None, "an operation of transaction kind `none` has no transaction"
        return self._tx

    def begin(self, tx: Transaction) -> None:
        """The unit of work runs in `tx` now; it may be run again in another one."""
        self._tx, self.alert = tx, None


Handler = Callable[[Call], Awaitable[Handled]]


class End(Protocol):
    """The last of the three steps."""

    def __call__(self, call: Call, intent: Any, outcome: Any, /, *, late: bool) -> Awaitable[Handled]:
        """Commit what came of it; `late`: an answer was given meanwhile, and stays."""


@dataclass(frozen=True, slots=True)
class ThreePhase:
    """How an operation is handled that asks a stranger, who may be slow or silent: no transaction waits for him.

    `begin` is a unit of work that commits the intent with the idempotency key, or refuses. `ask` runs in no
    transaction. `end` is a unit of work too; what it answers, a refusal included, is fixed under the key: once, so that
    where a worker took the intent up meanwhile, and answered, that answer is the one that is given.
    """

    begin: Callable[[Call], Awaitable[Any]]
    ask: Callable[[Call, Any], Awaitable[Any]]
    end: End


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the interface: routing, authorization, validation, OpenAPI and docs are derived from it.

    `errors` are the domain's own refusals, in the order in which they are checked; those that every operation of the
    surface shares are added by `http`. Answering any other is a defect.
    """

    method: str
    path: str
    name: str
    summary: str
    surface: Surface
    handler: Handler | ThreePhase
    status: int = 200
    further_statuses: tuple[int, ...] = ()
    """Other statuses of success, with the same body; 204 has none."""
    answer: Any = None
    """The answer's body as a JSON schema (dict), or None where there is none."""
    example: Any = None
    scope: Scope | None = None
    transaction: TransactionKind = "write"
    body: type[BaseModel] | None = None
    raw_body: bool = False
    """Whether the handler is given the bytes as they came, bounded but neither parsed nor looked at."""
    query: tuple[Query, ...] = ()
    headers: tuple[Query, ...] = ()
    """Headers of its own, for the docs."""
    conflict_keys: Callable[[Call], Iterable[str]] | None = None
    """All that a `write` may change or lock, by name: it may share a transaction with those that touch other things."""
    idempotent: bool = False
    path_pattern: str = ""
    """A regular expression that the path's last parameter must match, in upper case; else `invalid_path_param`."""
    errors: tuple[ErrorKind, ...] = ()
    development: bool = False
    """Absent from `paydesk serve`."""
    refuses_test_header: bool = False
    """Whether `X-Test-Token: true`, by which a caller means a test order, is refused beside a live token."""
    is_health_check: bool = False
    """Whether it is answered whatever `Host` says, for load balancers ask by address, and whatever the clock does."""
    is_constant: bool = False
    """Whether it is answered out of the process alone: no database is asked, and no clock."""
    description: str = ""
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter or a header: its name, its JSON schema and what it is for."""

    name: str
    schema: Mapping[str, Any]
    description: str
    required: bool = False

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
        if text.isascii() and text.isdigit():
            number = int(text) if len(text) <= NUMBER_DIGITS_MAX else 10**NUMBER_DIGITS_MAX
            if minimum <= number and (maximum is None or number <= maximum):
                return number
        bounds = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise ValueError(f"must be a whole number {bounds}")
