"""Settings: frozen, from the environment (`PAYDESK_*`) over a TOML file; every limit with its unit in the name."""

from __future__ import annotations

import difflib
import ipaddress
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from paydesk.core.durations import EXPIRATION_SECONDS_MAX, EXPIRATION_SECONDS_MIN, seconds_of

PREFIX = "PAYDESK_"
CLIENT_VARIABLES = frozenset({"PAYDESK_CREDENTIALS", "PAYDESK_BASE_URL", "PAYDESK_OPERATOR_TOKEN", "PAYDESK_SETTINGS"})


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise PydanticCustomError("address", "must be an IP address") from None


def _expiration(text: str) -> str:
    seconds = seconds_of(text)
    if seconds is None or not EXPIRATION_SECONDS_MIN <= seconds <= EXPIRATION_SECONDS_MAX:
        raise PydanticCustomError("expiration", "must be a duration from PT30S to PT3H")
    return text


# The upper bound keeps sums of instants within a database's integer.
Positive = Annotated[int, Field(gt=0, le=1_000_000_000)]
Port = Annotated[int, Field(gt=0, le=65_535)]
# How often something may be done; 0 is off.
Limit = Annotated[int, Field(ge=0, le=1_000_000)]
# What the interface promises to remember may be kept for longer, never for less.
Days = Annotated[int, Field(ge=30, le=36_500)]


class SettingsError(Exception):
    """A setting is wrong; the message names it and says what was expected."""


class Settings(BaseModel):
    """Everything that can be set. A field `x` is `PAYDESK_X` in the environment and `x` in the TOML file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database_url: str = Field(
        "sqlite:paydesk.db",
        pattern=r"^(sqlite:.+|postgres(ql)?://.+)$",
        description="`sqlite:FILE`, or `postgresql://user:password@host/name`.",
    )
    database_connections_max: Positive = Field(20, description="Connections to PostgreSQL; one more carries wakes.")
    database_timeout_seconds: Positive = Field(15, description="Deadline of one round trip to PostgreSQL.")
    clock_difference_seconds_max: Annotated[int, Field(gt=0, le=300)] = Field(
        30,
        description="A node whose clock differs more from PostgreSQL's is not ready: it judges nothing by time.",
    )
    keys_file: str = Field("paydesk.keys.json", description="The server keys, a file of mode 0600.")
    public_url: str | None = Field(
        None, pattern=r"^https?://[^/?#@]+$", description="The address that clients use; `serve` needs it."
    )
    host_names: tuple[str, ...] = Field(
        (), description="Further names that `Host` may carry, comma-separated; other than these and `public_url`: 421."
    )
    listen: str = Field("127.0.0.1:8377", pattern=r"^[^:]+:\d{1,5}$", description="Where `serve` listens.")
    operator_listen: str = Field(
        "127.0.0.1:8378", pattern=r"^[^:]+:\d{1,5}$", description="Where `serve` listens for operators."
    )
    trusted_proxies: tuple[Annotated[str, AfterValidator(_address)], ...] = Field(
        (), description="Addresses whose X-Forwarded-For is believed, comma-separated."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="One line a request; `auto` is text on a terminal and JSON otherwise."
    )
    log_level: Literal["info", "warning"] = Field(
        "info", description="`warning` leaves out what is no warning, the line of a request too, but for 5xx answers."
    )
    access_token_lifetime_seconds: Positive = Field(15_552_000, description="`expires_in`.")
    refresh_token_lifetime_seconds: Positive = Field(15_552_000, description="An unused refresh token lives so long.")
    code_lifetime_seconds: Positive = Field(600, le=600, description="An authorization code lives so long.")
    refresh_repeat_seconds: Positive = Field(
        60,
        le=86_400,
        description="A used refresh token answers the same tokens until so long after its successor was refreshed.",
    )
    code_repeat_seconds: Positive = Field(
        10, description="A code presented again sooner is a repeat of the network's making and revokes nothing."
    )
    session_hours: Annotated[int, Field(gt=0, le=8760)] = Field(
        12, description="A session of a seller at a browser ends this long after sign-in, used or not."
    )
    session_idle_minutes: Annotated[int, Field(ge=5, le=525_600)] = Field(
        30, description="A session of a seller at a browser ends when it was not used for this long, to the minute."
    )
    consent_minutes: Annotated[int, Field(gt=0, le=1440)] = Field(
        30, description="A page that asks a seller to agree can be answered for so long."
    )
    bearer_cache_seconds: float = Field(5, ge=0, le=5, description="How long a good bearer or secret is remembered.")
    client_requests_per_second: Limit = Field(
        50, description="Calls of one client to the token endpoints, once it has authenticated. 0: any number."
    )
    client_requests_burst: Positive = Field(100, description="So many of them may come at once.")
    client_failures_per_minute: Limit = Field(
        10, description="Failed authentications of one client_id from one address. 0: any number."
    )
    client_failures_per_minute_address: Limit = Field(
        100, description="Failed authentications of clients from one address. 0: any number."
    )
    token_requests_per_second: Limit = Field(
        200, description="Calls of orders and terminals with one access token. 0: any number."
    )
    token_requests_burst: Positive = Field(400, description="So many of them may come at once.")
    device_requests_per_second: Limit = Field(
        20, description="Calls of a terminal with one device token. 0: any number."
    )
    device_requests_burst: Positive = Field(40, description="So many of them may come at once.")
    bearer_failures_per_minute: Limit = Field(
        300, description="Calls from one address with a bearer that is nobody's. 0: any number."
    )
    sign_in_failures_per_hour: Limit = Field(
        30,
        description="Failed sign-ins with one e-mail from one address; in a seller's known browsers as many."
        " 0: any number.",
    )
    sign_in_failures_per_hour_address: Limit = Field(
        300, description="Failed sign-ins from one address that is new to the seller. 0: any number."
    )
    sign_in_failures_per_hour_email: Limit = Field(
        100, description="Failed sign-ins with one e-mail from all addresses new to the seller. 0: any number."
    )
    known_address_hours: Limit = Field(
        24,
        le=8760,
        description="An address counts as known to the seller or client who was let in there, so long. 0: never.",
    )
    order_expiration_default: Annotated[str, AfterValidator(_expiration)] = Field(
        "PT15M", description="`expiration_time` where an order has none."
    )
    order_amount_minor_min: Positive = Field(1, description="The smallest amount of an order, in minor units.")
    card_numbers_refused_in_references: bool = Field(
        False,
        description="Whether identifiers that applications and terminals choose are refused when they look like a card"
        " number. About one numeric identifier of 16 digits in twenty does; UUIDs never do.",
    )
    order_statuses: Literal["plain", "extended"] = Field(
        "plain",
        description="`extended` tells an expired order as `expired` and one of unknown outcome as `action_required`, in"
        " answers, searches and notifications; the same on all nodes.",
    )
    permit_seconds: Positive = Field(60, description="A terminal may go to the acquirer so long after the grant.")
    unknown_after_seconds: Positive = Field(
        40, description="No outcome so long after the grant: `check_on_terminal` and an inquiry."
    )
    inquiry_pause_seconds: tuple[Positive, ...] = Field(
        (10, 30, 60, 120, 300, 600),
        min_length=1,
        description="Pauses between inquiries of an unknown outcome, comma-separated; the last one again and again."
        " The first inquiry is made at once.",
    )
    inquiry_not_found_seconds: Positive = Field(
        600, description="A payment that the acquirer does not know for so long is undone there, and the order fails."
    )
    reversal_pause_seconds: tuple[Positive, ...] = Field(
        (10, 30, 60, 120, 300, 600),
        min_length=1,
        description="Pauses between attempts to give a late approval back, comma-separated; the last one again and"
        " again.",
    )
    acquirer_silent_seconds: Positive = Field(
        3600, description="An inquiry, reversal or refund that is open for so long is told to the operators, once."
    )
    resolve_after_seconds: Positive = Field(
        600,
        description="An operator may end an order whose outcome has been unknown for so long, and a reversal that has"
        " been open for so long.",
    )
    cancel_silence_seconds: Positive = Field(
        30, description="A terminal asked to give an order back that stays silent so long loses it."
    )
    offer_again_seconds: Positive = Field(10, description="An order offered and not acknowledged is offered again.")
    results_per_lease_max: Positive = Field(20, description="Results that a terminal may report for one lease.")
    refund_answer_seconds: Positive = Field(
        5, description="A refund that the acquirer has not decided so soon is answered as `processing`."
    )
    refund_unsent_hours: Annotated[int, Field(gt=0, le=8760)] = Field(
        24, description="A refund that could not be sent to the acquirer for so long fails, and may be asked for again."
    )
    webhook_timeout_seconds: Positive = Field(22, description="A delivery's time from name look-up to last byte.")
    webhook_retry_seconds: tuple[Positive, ...] = Field(
        (15, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 86_400),
        description="Pauses between a delivery's attempts, comma-separated.",
    )
    webhook_ports: tuple[Port, ...] = Field((443, 8443), description="Ports a webhook URL may have.")
    webhook_concurrency_max: Positive = Field(64, description="Deliveries under way at once on a node.")
    idempotency_keep_days: Days = Field(30, description="An idempotency key of a create or a cancel is kept so long.")
    tokens_keep_days: Days = Field(
        30, description="A code, token or session of a terminal is kept so long after its end."
    )
    deliveries_keep_days: Days = Field(30, description="A delivery, with its attempts, is kept so long after its end.")
    events_keep_days: Days = Field(30, description="An event is told at `GET /v1/events` for so long.")
    acquirer: Literal["none", "simulator"] = Field(
        "none", description="Who moves the money of live orders; `simulator` is for `paydesk dev` alone."
    )
    simulator_script: str = Field(
        "",
        max_length=2000,
        description="What the simulated acquirer does beside cards and amounts: `docs/simulator.md`.",
    )
    simulator_seed: int = Field(
        0, ge=0, le=2**63 - 1, description="Another seed, another fate of what the script leaves to chance."
    )
    connections_max: Positive = Field(
        5000, description="Open connections; one more ends the one without a request for the longest, or gets 503."
    )
    connections_per_address_max: Limit = Field(
        0,
        description="Open connections of one address; one more closes an idle one of that address, and if none is idle,"
        " gets 503. 0: any number.",
    )
    requests_max: Positive = Field(
        1000, description="Requests at the database at once, on each listener; one more is answered 503 at once."
    )
    head_timeout_seconds: Positive = Field(5, description="A request's head must be there within.")
    body_timeout_seconds: Positive = Field(5, description="A request's body must be there within.")
    drain_seconds: float = Field(
        0, ge=0, le=300, description="After SIGTERM `/readyz` says so for so long before the listeners close."
    )
    write_timeout_seconds: Positive = Field(
        10,
        description="Disconnect a client that reads less than 4 KiB of its pending responses within this many seconds.",
    )
    keep_alive_seconds: Positive = Field(75, description="An idle connection is kept so long.")

    @property
    def issuer(self) -> str:
        """Under which address tokens are issued, and the pages are found."""
        return self.public_url or f"http://{self.listen}"


THROTTLES = (
    "client_requests_per_second",
    "client_failures_per_minute",
    "client_failures_per_minute_address",
    "token_requests_per_second",
    "device_requests_per_second",
    "bearer_failures_per_minute",
    "sign_in_failures_per_hour",
    "sign_in_failures_per_hour_address",
    "sign_in_failures_per_hour_email",
)
UNTHROTTLED: Mapping[str, Any] = dict.fromkeys(THROTTLES, 0)
"""Nothing is throttled: for measuring, and for tests that hammer."""

_WITH_SECRETS = {"database_url"}
_LISTS = {name for name, field in Settings.model_fields.items() if "tuple" in str(field.annotation)}


def load(environment: Mapping[str, str] = os.environ, file: Path | None = None, **overrides: Any) -> Settings:
    """The settings of `file` (or of `PAYDESK_SETTINGS`), over them the environment's, over them `overrides`.

    Raises `SettingsError`, which names each wrong setting, where it stands and what was expected.
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
    _refuse_unknown(given, origin)
    try:
        return Settings(**given)
    except ValidationError as error:
        raise SettingsError("\n".join(_explained(fault, origin) for fault in error.errors())) from None


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is not TOML: it is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from None


def _refuse_unknown(given: Mapping[str, Any], origin: Mapping[str, str]) -> None:
    unknown = [name for name in given if name not in Settings.model_fields]
    if unknown:
        raise SettingsError("\n".join(_unknown(name, origin.get(name, name)) for name in unknown))


def _unknown(name: str, where: str) -> str:
    close = difflib.get_close_matches(name, Settings.model_fields, 1)
    return f"{where}: there is no such setting" + (f"; did you mean {close[0]}?" if close else "")


def _explained(fault: Any, origin: Mapping[str, str]) -> str:
    name = str(fault["loc"][0])
    expected = Settings.model_fields[name].description or ""
    got = "***" if name in _WITH_SECRETS else repr(fault["input"])
    message = fault["msg"][:1].lower() + fault["msg"][1:]
    return f"{origin.get(name, name)}: {message} (got {got}). {expected}"
