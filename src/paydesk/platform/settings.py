"""Settings, from the environment (`PAYDESK_*`) over a TOML file; names of limits end with their unit."""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from paydesk.core.model import property_fault, rule
from paydesk.core.text.durations import ACQUIRER_SECONDS_MAX, EXPIRATION_SECONDS_MAX, EXPIRATION_SECONDS_MIN, seconds_of

PREFIX = "PAYDESK_"
CLIENT_VARIABLES = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("CREDENTIALS", "BASE_URL", "OPERATOR_TOKEN", "SETTINGS"),
        # What `paydesk env` prints for programs, and what terminals read.
        *("TLS_BASE_URL", "CA_FILE", "ACCESS_TOKEN", "CLIENT_ID", "CLIENT_SECRET", "REDIRECT_URI", "USER_ID"),
        *("TERMINAL_ID", "WEBHOOK_SECRET", "DEVICE_TOKEN"),
    )
)
"""Variables with the prefix of the settings that are not settings."""


def _canonical(parse: Callable[[str], object], message: str) -> AfterValidator:
    """Return the annotation of a text that is kept as `parse` writes it; `parse` raises `ValueError`."""

    def check(text: str) -> str:
        try:
            return str(parse(text))
        except ValueError:
            raise property_fault(message) from None

    return AfterValidator(check)


_NETWORK = _canonical(ipaddress.ip_network, "must be a network such as 10.20.0.0/16, whose address ends with it")
_PROXY = _canonical(
    ipaddress.ip_network,
    "must be an IP address, or a network such as 10.0.0.0/8 or fd00::/8, whose address ends with it",
)


def _is_listen_address(text: str) -> bool:
    """Return whether the text is `host:port` or `[IPv6 address]:port`."""
    match = re.fullmatch(r"(?:\[(?P<address>[^\]]+)\]|[^:\[\]]+):(?P<port>[0-9]{1,5})", text)
    try:
        return (
            match is not None
            and int(match["port"]) <= 65_535
            and ipaddress.IPv6Address(match["address"] or "::") is not None
        )
    except ValueError:
        return False


ListenAddress = Annotated[str, rule("must be host:port, such as 127.0.0.1:8377 or [::]:8377", _is_listen_address)]

Expiration = Annotated[
    str,
    rule(
        "must be a duration from PT30S to PT3H",
        lambda text: EXPIRATION_SECONDS_MIN <= (seconds_of(text) or 0) <= EXPIRATION_SECONDS_MAX,
    ),
]
# The upper bound keeps sums of instants within a database integer.
Positive = Annotated[int, Field(gt=0, le=1_000_000_000)]
Port = Annotated[int, Field(gt=0, le=65_535)]
# A rate limit; 0 turns it off.
Limit = Annotated[int, Field(ge=0, le=1_000_000)]
# The interface guarantees 30 days; a longer retention is allowed.
Days = Annotated[int, Field(ge=30, le=36_500)]


class SettingsError(Exception):
    """A setting is invalid; the message names it and the expected value."""


class Settings(BaseModel):
    """All settings. A field `x` is `PAYDESK_X` in the environment and `x` in the TOML file."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    database_url: str = Field("sqlite:paydesk.db", pattern=r"^(sqlite:.+|postgres(ql)?://.+)$")
    """`sqlite:FILE`, or `postgresql://user:password@host/name`."""
    database_listen_url: str | None = Field(None, pattern=r"^postgres(ql)?://.+$")
    """URL of PostgreSQL itself if `database_url` is that of a connection pooler: for LISTEN and for migrations."""
    database_connections_max: Positive = 20
    """PostgreSQL connections; one more is for LISTEN."""
    database_timeout_seconds: Positive = 15
    """Timeout of one round trip to PostgreSQL."""
    clock_difference_seconds_max: Annotated[int, Field(gt=0, le=300)] = 30
    """A node whose clock differs more from PostgreSQL's is not ready and makes no time-based decision."""
    keys_file: str = "paydesk.keys.json"
    """File of the server keys, mode 0600."""
    public_url: str | None = Field(None, pattern=r"^https?://[^/?#@]+$")
    """URL that clients use; required by `serve`."""
    operator_public_url: str | None = Field(None, pattern=r"^https?://[^/?#@]+$")
    """URL that operators' browsers use; without it `http://<operator_listen>`. `serve` requires it if `operator_listen`
    isn't a loopback address."""
    pairing_url: str | None = Field(None, pattern=r"^https?://[^?#@]+$", max_length=500)
    """URL of the page where operators type the code that a terminal shows; without it
    `<operator_public_url>/console/pair`."""
    host_names: tuple[str, ...] = ()
    """Host names accepted besides that of `public_url`; any other gets 421."""
    listen: ListenAddress = "127.0.0.1:8377"
    """Address `serve` listens on; `[::]:8377` accepts IPv6 and IPv4."""
    operator_listen: ListenAddress = "127.0.0.1:8378"
    """Address `serve` listens on for operators."""
    trusted_proxies: tuple[Annotated[str, _PROXY], ...] = ()
    """Addresses or networks of proxies whose X-Forwarded-For is used."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """`json`, `text`, or `auto`: text on a terminal, otherwise JSON."""
    log_level: Literal["info", "warning"] = "info"
    """`warning` logs only warnings and errors; of requests only those with a 5xx status."""
    log_polls: bool = False
    """Whether to log polls that found nothing and health checks that passed. Slow ones always are."""
    log_each_refusal: bool = False
    """Whether to log each refused request. Otherwise those of one caller after its first are one line a minute."""
    access_token_lifetime_seconds: Positive = 15_552_000
    """`expires_in` of an access token."""
    refresh_token_lifetime_seconds: Positive = 15_552_000
    """Lifetime of an unused refresh token."""
    code_lifetime_seconds: Positive = Field(600, le=600)
    """Lifetime of an authorization code."""
    refresh_repeat_seconds: Positive = Field(60, le=86_400)
    """Grace period: a used refresh token returns the same tokens until this long after its successor was refreshed."""
    code_repeat_seconds: Positive = 10
    """A code presented again within this time counts as a network retry and revokes nothing."""
    session_hours: Annotated[int, Field(gt=0, le=8760)] = 12
    """Lifetime of a seller's or operator's browser session from sign-in."""
    session_idle_minutes: Annotated[int, Field(ge=5, le=525_600)] = 30
    """A seller's or operator's browser session ends after this time without use, accurate to the minute."""
    consent_minutes: Annotated[int, Field(gt=0, le=1440)] = 30
    """A seller must answer the consent page within this time."""
    bearer_cache_seconds: float = Field(5, ge=0, le=5)
    """Cache time of a valid bearer token or client secret."""
    client_requests_per_second: Limit = 50
    """Token endpoint requests of one client."""
    client_requests_burst: Positive = 100
    """How many of these at once."""
    client_failures_per_minute: Limit = 10
    """Failed authentications of a client_id from one address."""
    client_failures_per_minute_address: Limit = 100
    """Failed client authentications from one address."""
    token_requests_per_second: Limit = 200
    """Requests with one access token."""
    token_requests_burst: Positive = 400
    """How many of these at once."""
    application_requests_per_second: Limit = 400
    """Requests of one application for one seller, with all its access tokens."""
    application_requests_burst: Positive = 800
    """How many of these at once."""
    device_requests_per_second: Limit = 20
    """Requests with one device token."""
    device_requests_burst: Positive = 40
    """How many of these at once."""
    pairings_per_minute_address: Limit = 60
    """Terminals that ask to be paired, from one address."""
    pairing_polls_per_minute_address: Limit = 1200
    """Requests of terminals for the token of their pairing, from one address."""
    pairing_failures_per_minute: Limit = 5
    """Wrong pairing codes of one operator."""
    pairings_open_max: Positive = 10_000
    """Terminals that may ask to be paired at the same time; a further one gets 429."""
    searches_per_minute_address: Limit = 300
    """Searches in the documentation, from one address."""
    bearer_failures_per_minute: Limit = 300
    """Unknown bearer tokens from one address."""
    resends_per_minute: Limit = 30
    """Notifications that one operator may send again."""
    sign_in_failures_per_hour: Limit = 30
    """Failed sign-ins with one e-mail from one address; an account's known browsers have the same limit of their
    own."""
    sign_in_failures_per_hour_address: Limit = 300
    """Failed sign-ins from one address that is new to the account."""
    sign_in_failures_per_hour_email: Limit = 100
    """Failed sign-ins with one e-mail from all addresses that are new to the account."""
    known_address_hours: Limit = Field(24, le=8760)
    """An address is known to an account or client this long after an authentication. 0: never."""
    order_expiration_default: Expiration = "PT15M"
    """`expiration_time` of orders without one."""
    order_amount_minor_min: Positive = 1
    """Smallest amount of an order, in minor units."""
    card_numbers_refused_in_references: bool = False
    """Whether to refuse identifiers of applications and terminals, and e-mail addresses, that look like a card number.
    About 1 in 20 numeric identifiers of 16 digits does; UUIDs never do."""
    order_statuses: Literal["plain", "extended"] = "plain"
    """`extended` reports an expired order as `expired` and one with an unknown outcome as `action_required`, in
    responses, searches and webhooks. Use the same value on all nodes."""
    grant_seconds: Positive = 60
    """A terminal may send a payment to the acquirer within this time after the authorization permit."""
    unknown_after_seconds: Positive = 40
    """Without a result this long after the authorization permit: `check_on_terminal` and an inquiry."""
    inquiry_pause_seconds: tuple[Positive, ...] = Field((10, 30, 60, 120, 300, 600), min_length=1)
    """Pauses between inquiries of an unknown outcome; the last one repeats. The first inquiry is
    made at once."""
    inquiry_not_found_seconds: Positive = Field(120, validate_default=True)
    """Deprecated: declare `not_found_final_seconds` in the `acquirers_file`. For an acquirer that declares nothing: a
    payment not found this long after the authorization permit is reversed and the order fails. At least 30 s longer
    than `grant_seconds`."""
    reversal_pause_seconds: tuple[Positive, ...] = Field((10, 30, 60, 120, 300, 600), min_length=1)
    """Pauses between attempts to reverse a late approval; the last one repeats."""
    acquirer_silent_seconds: Positive = 3600
    """Operators are alerted once of an inquiry, reversal or refund that is open for this time."""
    confirm_margin_seconds: Positive = 60
    """A provisional approval is confirmed or undone this long before the acquirer's deadline, at the latest."""
    resolve_after_seconds: Positive = 180
    """An operator may resolve an order with an unknown outcome, or a reversal, after this time."""
    cancel_silence_seconds: Positive = 30
    """An order is canceled if its terminal does not answer a cancel request within this time."""
    offer_again_seconds: Positive = 10
    """An unacknowledged order is offered again after this time."""
    results_per_lease_max: Positive = 20
    """Results that a terminal may report for one lease."""
    refund_answer_seconds: Positive = 5
    """A refund that the acquirer has not decided after this time gets the response `processing`."""
    refund_unsent_hours: Annotated[int, Field(gt=0, le=8760)] = 24
    """A refund that cannot be sent to the acquirer for this time fails and can be requested again."""
    webhook_timeout_seconds: Positive = 22
    """Timeout of a delivery, from DNS lookup to last byte."""
    webhook_retry_seconds: tuple[Positive, ...] = (15, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 86_400)
    """Pauses between the attempts of a delivery."""
    webhook_ports: tuple[Port, ...] = (443, 8443)
    """Ports allowed in a webhook URL."""
    webhook_private_networks: tuple[Annotated[str, _NETWORK], ...] = ()
    """Private networks in which webhooks may be received, such as `10.20.0.0/16`. Loopback, link-local
    and cloud metadata addresses are always refused."""
    webhook_concurrency_max: Positive = 64
    """Concurrent deliveries of a process."""
    idempotency_keep_days: Days = 30
    """Retention of idempotency keys of creates and cancels."""
    tokens_keep_days: Days = 30
    """Retention of codes, tokens and sessions after their end."""
    deliveries_keep_days: Days = 30
    """Retention of deliveries and their attempts after their end."""
    events_keep_days: Days = 30
    """Retention of events at `GET /v1/events`."""
    acquirer: str = Field("none", pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    """Acquirer of live orders that no rule of `acquirers_file` routes: a name in that file, `none`, or, only in dev,
    `simulator`."""
    acquirers_file: str | None = None
    """File of the acquirers, mode 0600, the same on all nodes; see `docs/acquirers.md`. A relative path, here and in
    the file, is relative to the directory in which Paydesk was started."""
    simulator_script: str = Field("", max_length=2000)
    """Rules of the simulator besides cards and amounts: see `docs/simulator.md`."""
    simulator_seed: int = Field(0, ge=0, le=2**63 - 1)
    """Seed for the simulator's random choices."""
    simulator_confirmations: bool = False
    """Approvals of the simulated acquirer wait for the terminal's result, as some hosts do."""
    faults: str = Field("", max_length=4000)
    """Faults of `paydesk dev` from its start, separated by semicolons, such as `till create_order answer_lost`: see
    `docs/faults.md`."""
    metrics_token: str | None = Field(None, pattern=r"^(file|env):.+$")
    """Where the token is with which Prometheus reads `/metrics`: `file:PATH`, mode 0600, or `env:NAME`, with 32
    characters or more. Without it `/metrics` is refused, except in dev."""
    trace_endpoint: str | None = Field(
        None, pattern=r"^https?://(\[[0-9A-Fa-f:.]+\]|[^/?#@:\s]+)(:[0-9]{1,5})?(/[^?#\s]*)?$"
    )
    """URL that gets spans by OTLP over HTTP, such as `http://localhost:4318/v1/traces`: see `docs/traces.md`."""
    trace_ratio: float = Field(0, ge=0, le=1)
    """Share of the requests without a `traceparent` whose spans are recorded; those with one say it themselves."""
    connections_max: Positive = 5000
    """Open connections; a further one evicts the longest idle one or gets 503."""
    connections_per_address_max: Limit = 0
    """Open connections of one address; a further one evicts an idle one of that address or gets 503. 0: no limit."""
    requests_max: Positive = 1000
    """Concurrent requests in the database, per listener; a further one gets 503 at once."""
    head_timeout_seconds: Positive = 5
    """Time to receive a request's head."""
    body_timeout_seconds: Positive = 5
    """Time to receive a request's body."""
    drain_seconds: float = Field(0, ge=0, le=300)
    """After SIGTERM `/readyz` returns 503 for this time before the listeners close."""
    write_timeout_seconds: Positive = 10
    """A client must read 4 KiB of its pending responses within this time, or is disconnected."""
    keep_alive_seconds: Positive = 75
    """Lifetime of an idle connection."""

    @field_validator("inquiry_not_found_seconds")
    @classmethod
    def _is_after_permit(cls, seconds: int, info: ValidationInfo) -> int:
        """A terminal may call the acquirer until the permit expires, and the acquirer may answer later still."""
        earliest = info.data.get("grant_seconds", 0) + ACQUIRER_SECONDS_MAX
        if seconds < earliest:
            wait = f"grant_seconds and {ACQUIRER_SECONDS_MAX} s for the acquirer's answer"
            raise property_fault(f"must be at least {earliest}: {wait}")
        return seconds

    @property
    def direct_database_url(self) -> str:
        """Return the URL of the database past a connection pooler."""
        return self.database_listen_url or self.database_url

    @property
    def issuer(self) -> str:
        """Return the URL of the issuer of tokens and of the pages."""
        return self.public_url or f"http://{self.listen}"

    @property
    def operator_url(self) -> str:
        """Return the URL of the console."""
        return self.operator_public_url or f"http://{self.operator_listen}"


def description(name: str) -> str:
    """Return the description of a setting as one line."""
    return " ".join((Settings.model_fields[name].description or "").split())


THROTTLES = (
    "client_requests_per_second",
    "client_failures_per_minute",
    "client_failures_per_minute_address",
    "token_requests_per_second",
    "application_requests_per_second",
    "device_requests_per_second",
    "pairings_per_minute_address",
    "pairing_polls_per_minute_address",
    "pairing_failures_per_minute",
    "searches_per_minute_address",
    "bearer_failures_per_minute",
    "resends_per_minute",
    "sign_in_failures_per_hour",
    "sign_in_failures_per_hour_address",
    "sign_in_failures_per_hour_email",
)
UNTHROTTLED: Mapping[str, Any] = dict.fromkeys(THROTTLES, 0)
"""All rate limits turned off, for benchmarks and load tests."""

_LISTS = {name for name, field in Settings.model_fields.items() if "tuple" in str(field.annotation)}


def load(environment: Mapping[str, str] = os.environ, file: Path | None = None, **overrides: Any) -> Settings:
    """Load the settings: `overrides`, then the environment, then `file` (or the file in `PAYDESK_SETTINGS`).

    Raises `SettingsError`, which names each invalid setting, its source and the expected value.
    """
    given: dict[str, Any] = {}
    origin: dict[str, str] = {}
    path = file or (Path(environment["PAYDESK_SETTINGS"]) if environment.get("PAYDESK_SETTINGS") else None)
    if path is not None:
        for name, value in _from_toml(path).items():
            given[name], origin[name] = value, f"{name} in {path}"
    for variable, text in environment.items():
        if variable.startswith(PREFIX) and variable not in CLIENT_VARIABLES:
            name = variable.removeprefix(PREFIX).lower()
            given[name] = tuple(part.strip() for part in text.split(",") if part.strip()) if name in _LISTS else text
            origin[name] = variable
    given.update(overrides)
    try:
        return Settings(**given)
    except ValidationError as error:
        raise SettingsError("\n".join(_explained(fault, origin) for fault in error.errors())) from None


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not TOML: it is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None


def _explained(fault: Any, origin: Mapping[str, str]) -> str:
    name = str(fault["loc"][0])
    where = origin.get(name, name)
    if name not in Settings.model_fields:
        close = difflib.get_close_matches(name, Settings.model_fields, 1)
        return f"{where}: unknown setting" + (f"; did you mean {close[0]}?" if close else "")
    got = "***" if name in ("database_url", "database_listen_url") else repr(fault["input"])
    message = fault["msg"][:1].lower() + fault["msg"][1:]
    return f"{where}: {message} (got {got}). {description(name)}"
