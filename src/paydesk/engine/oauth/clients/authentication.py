"""Client authentication at the token endpoints, by the credentials in the body (RFC 6749 section 2.3.1).

A client is looked up with its secrets, unless this node's cache has it: the cache only admits, and a miss leads to the
look-up. A throttle limits the failures and the request rate.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from paydesk.core import runtime
from paydesk.core.errors import INVALID_CLIENT, Refusal
from paydesk.core.limits.cache import LookupCache
from paydesk.core.limits.rates import Buckets, Monotonic, network
from paydesk.core.limits.recent_addresses import RecentAddresses
from paydesk.core.limits.throttle_log import ThrottleLog
from paydesk.core.secrets import digest
from paydesk.core.signals import Signals
from paydesk.engine.oauth.errors import LOCAL_RATE_LIMITED
from paydesk.engine.oauth.lifecycle import OnReplay
from paydesk.platform.storage.database import Row, Transaction

ENTRIES_MAX = 1_000
MINUTE_SECONDS, HOUR_SECONDS = 60, 3600

_UNKNOWN_CLIENT_DIGEST = digest("secret of no client")
_uris = msgspec.json.Decoder(tuple[str, ...]).decode


class Application(msgspec.Struct, frozen=True):
    """An application. `scopes`, in alphabetical order, are the most it may request, and the default of a request.

    `test_tokens` is the mode of an exchange without `test_token` whose code has no mode of its own.
    """

    application_id: int
    name: str
    redirect_uris: tuple[str, ...]
    scopes: str
    pkce_required: bool
    on_replay: OnReplay
    test_tokens: bool
    public_key_live: str
    public_key_test: str
    suspended_ms: int | None
    created_ms: int

    @classmethod
    def of(cls, row: Row) -> Application:
        """Return the application of a row that begins with its columns."""
        values: list[Any] = list(row[:11])
        values[2], values[4], values[6] = _uris(values[2]), bool(values[4]), bool(values[6])
        return cls(*values)

    def public_key(self, *, live: bool) -> str:
        """Return the public key for live or test mode."""
        return self.public_key_live if live else self.public_key_test


# Selects an application with all its secrets, one row each; one row without a secret if it has none.
WITH_SECRETS = """SELECT a.application_id, a.name, a.redirect_uris, a.scopes, a.pkce_required, a.on_replay,
        a.test_tokens, a.public_key_live, a.public_key_test, a.suspended_ms, a.created_ms,
        s.secret_id, s.digest, s.expires_ms, s.expired_ms
    FROM applications a LEFT JOIN application_secrets s ON s.application_id = a.application_id
    WHERE a.application_id = $1"""

# A secret refused as expired stays expired, also if the clock is set back.
SECRET_EXPIRED = """UPDATE application_secrets SET expired_ms = $3
    WHERE application_id = $1 AND secret_id = $2 AND expired_ms IS NULL"""


class Entry(msgspec.Struct, frozen=True):
    """An application and the digest of the secret that it authenticated with; the secret is valid to `expires_ms`."""

    application: Application
    secret_digest: bytes
    expires_ms: int | None


class AuthenticationCache(LookupCache[str, Entry]):
    """The applications that authenticated on this node within `cache_seconds`, each with the secret last used."""

    def __init__(self, signals: Signals, cache_seconds: float) -> None:
        super().__init__(cache_seconds, ENTRIES_MAX, signals)
        self.clear_on("applications")

    def find(self, client_id: str, client_secret: str, now_ms: int) -> Application | None:
        """Return the application if these credentials were valid within `cache_seconds`, else None."""
        entry = self.get(client_id)
        if entry is None or not hmac.compare_digest(digest(client_secret), entry.secret_digest):
            return None
        return entry.application if entry.expires_ms is None or now_ms < entry.expires_ms else None


async def authenticate(
    tx: Transaction, client_id: str, client_secret: str, now_ms: int, cache: AuthenticationCache | None = None
) -> Application | Refusal:
    """Return the application with these credentials, or INVALID_CLIENT. Unless it is suspended, store it in `cache`.

    The refusal is returned, since the expiry of a secret is recorded and must be committed. Neither the answer nor its
    time shows whether the application or the secret is wrong.
    """
    given, changes = digest(client_secret), cache.changes if cache is not None else 0
    rows = await tx.all(WITH_SECRETS, number(client_id))
    matching = [row for row in rows if hmac.compare_digest(given, row[12] or _UNKNOWN_CLIENT_DIGEST)]
    if not rows:
        hmac.compare_digest(given, _UNKNOWN_CLIENT_DIGEST)
        return INVALID_CLIENT.with_reason("unknown client")
    if not matching or matching[0][12] is None:
        return _named("secret differs", rows[0])
    application_id, secret_id, expires_ms, expired_ms = (matching[0][column] for column in (0, 11, 13, 14))
    if expired_ms is None and (expires_ms is None or now_ms < expires_ms):
        application = Application.of(matching[0])
        if cache is not None and application.suspended_ms is None:
            cache.store(client_id, Entry(application, given, expires_ms), changes=changes)
        return application
    if expired_ms is None:
        tx.notify("applications")
    await tx.run(SECRET_EXPIRED, application_id, secret_id, now_ms)
    return _named("secret expired", rows[0])


def _named(reason: str, row: Row) -> Refusal:
    """Return the refusal of a secret, with the client that the request named in the log line."""
    refused = INVALID_CLIENT.with_reason(reason)
    refused.facts = {"client_id": row[0]}
    return refused


def number(client_id: str) -> int:
    """Return the number of a `client_id`, or -1 if it is malformed: the look-up takes the same time then."""
    canonical = client_id.isascii() and client_id.isdigit() and 0 < len(client_id) <= 18 and client_id[0] != "0"
    return int(client_id) if canonical else -1


@dataclass(frozen=True, slots=True)
class ClientRates:
    """Failed authentications per minute, and requests of an authenticated client; 0 means no limit."""

    pair_per_minute: int = 10
    """Failures of one client_id from one address."""
    address_per_minute: int = 100
    requests_per_second: int = 50
    requests_burst: int = 100
    known_hours: int = 24
    processes: int = 1
    """Processes of a node; each has an equal part of the limits."""


class ClientThrottle:
    """Limits failed authentications by (client_id, address) and by address, and the request rate by client.

    Each node counts for itself, by the monotonic clock. From an address where a client authenticated recently it is
    never refused for failures: its client_id is public, so anyone can cause them. The nodes share these addresses.
    """

    def __init__(
        self,
        rates: ClientRates,
        signals: Signals | None = None,
        log: ThrottleLog | None = None,
        *,
        monotonic: Monotonic = runtime.monotonic_ns,
    ) -> None:
        self._log = log or ThrottleLog()
        buckets = partial(Buckets, processes=rates.processes, monotonic=monotonic)
        self._pairs: Buckets[tuple[int, str]] = buckets(rates.pair_per_minute, MINUTE_SECONDS)
        self._addresses: Buckets[str] = buckets(rates.address_per_minute, MINUTE_SECONDS)
        self._clients: Buckets[int] = buckets(rates.requests_per_second, burst=rates.requests_burst)
        self._recent = RecentAddresses("known-client", rates.known_hours * HOUR_SECONDS, signals, monotonic=monotonic)
        self._counts_failures = rates.pair_per_minute > 0 or rates.address_per_minute > 0

    @property
    def is_idle(self) -> bool:
        """Return whether no failures are counted, so that no client can be refused."""
        return not self._pairs and not self._addresses

    def refusal(self, client: int, address: str) -> int | None:
        """Return the seconds until this client may authenticate from this address, or None if it may now."""
        origin = network(address)
        seconds = max(self._pairs.wait((client, origin)), self._addresses.wait(origin))
        if not seconds or self._recent.has(str(client), origin):
            return None
        self._log.note("client_failures", address=origin)
        return seconds

    def failed(self, client: int, address: str) -> None:
        """Count a failure: an unknown client or a wrong secret."""
        origin = network(address)
        self._pairs.charge((client, origin))
        self._addresses.charge(origin)

    def succeeded(self, client: int, address: str) -> int | None:
        """Count a request of the authenticated client; return the seconds to wait if it exceeds its rate, or None."""
        if self._counts_failures:
            self._recent.add(str(client), network(address))
        seconds = self._clients.take(client)
        if seconds:
            self._log.note("client_requests", address=network(address))
        return seconds or None


def check_throttled(throttle: ClientThrottle, document: Mapping[str, Any], address: str) -> None:
    """Refuse a client with too many failures from this address, before any other check of the body.

    The client is named by the body, whether or not the rest is valid.
    """
    if throttle.is_idle:
        return
    value = document.get("client_id")
    client_id = str(value) if type(value) is int else value
    seconds = throttle.refusal(number(client_id), address) if isinstance(client_id, str) and client_id else None
    if seconds is not None:
        raise limited("too many failed authentications", seconds)


def limited(reason: str, seconds: int) -> Refusal:
    """Return the refusal of a request that may be repeated after `seconds`."""
    return LOCAL_RATE_LIMITED.with_reason(reason, headers=(("retry-after", str(seconds)),))
