"""How often proving who one is may fail, how often a client may call, and how no stranger keeps anybody out.

The tables are this node's own and by the monotonic clock; that a client or a seller was let in somewhere is told to the
other nodes. E-mail addresses are kept as digests, unknown ones like known ones: whether there is such a seller shows
nowhere.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from paydesk.core.rates import Buckets, Monotonic, Tally, network
from paydesk.core.recent_addresses import RecentAddresses
from paydesk.core.secrets import digest
from paydesk.core.signals import Signals
from paydesk.core.throttle_log import ThrottleLog

MINUTE_SECONDS, HOUR_SECONDS = 60, 3600
FAILURES_PER_ALERT = 5
"""At every fifth failure of one e-mail address from one address within an hour operators are alerted."""


@dataclass(frozen=True, slots=True)
class ClientRates:
    """Failed authentications in a minute, and calls of a client that authenticated; 0 is off."""

    pair_per_minute: int = 10
    """Of one client_id from one address."""
    address_per_minute: int = 100
    requests_per_second: int = 50
    requests_burst: int = 100
    known_hours: int = 24


class ClientThrottle:
    """Failed authentications of clients, by (client_id, address) and by address; and how often a client may call.

    Where a client has authenticated lately nobody's failures keep it from trying: its client_id is no secret.
    """

    def __init__(
        self,
        rates: ClientRates,
        signals: Signals | None = None,
        log: ThrottleLog | None = None,
        *,
        monotonic: Monotonic = time.monotonic_ns,
    ) -> None:
        self._log = log or ThrottleLog()
        self._pairs: Buckets[tuple[int, str]] = Buckets(rates.pair_per_minute, MINUTE_SECONDS, monotonic=monotonic)
        self._addresses: Buckets[str] = Buckets(rates.address_per_minute, MINUTE_SECONDS, monotonic=monotonic)
        self._clients: Buckets[int] = Buckets(
            rates.requests_per_second, burst=rates.requests_burst, monotonic=monotonic
        )
        self._known = RecentAddresses("known-client", rates.known_hours * HOUR_SECONDS, signals, monotonic=monotonic)
        self._counts_failures = rates.pair_per_minute > 0 or rates.address_per_minute > 0

    @property
    def is_calm(self) -> bool:
        """Whether there is nobody to refuse, as nearly always."""
        return not self._pairs and not self._addresses

    def refusal(self, client: int, address: str) -> int | None:
        """The seconds to wait before this client may try from there, or None where it may now."""
        place = network(address)
        seconds = max(self._pairs.wait((client, place)), self._addresses.wait(place))
        if not seconds or self._known.has(str(client), place):
            return None
        self._log.note("client_failures", address=place)
        return seconds

    def failed(self, client: int, address: str) -> None:
        """There is no such client, or its secret was wrong."""
        place = network(address)
        self._pairs.charge((client, place))
        self._addresses.charge(place)

    def succeeded(self, client: int, address: str) -> int | None:
        """It is the client: the seconds to wait where it calls too often, or None."""
        if self._counts_failures:
            self._known.add(str(client), network(address))
        seconds = self._clients.take(client)
        if seconds:
            self._log.note("client_requests", address=network(address))
        return seconds or None


@dataclass(frozen=True, slots=True)
class SignInRates:
    """Failed sign-ins in an hour; 0 is off. `known_hours`: how long an address of a good sign-in is known."""

    pair_per_hour: int = 30
    """Of one e-mail address from one address; and of a seller's known browsers together."""
    address_per_hour: int = 300
    email_per_hour: int = 100
    known_hours: int = 24


class SignInThrottle:
    """Failed sign-ins by (e-mail, address), by address, and by e-mail over all addresses.

    A known browser, and an address from which this seller has signed in lately, have a budget of their own: they feel
    nothing of what strangers do with the seller's e-mail address. A browser whose budget is used up is one that is not
    known: whoever signed in once, before the password was another, keeps nobody out with it.
    """

    def __init__(
        self,
        rates: SignInRates,
        signals: Signals | None = None,
        log: ThrottleLog | None = None,
        *,
        monotonic: Monotonic = time.monotonic_ns,
    ) -> None:
        self._log = log or ThrottleLog()
        self._pairs: Buckets[tuple[str, str]] = Buckets(rates.pair_per_hour, HOUR_SECONDS, monotonic=monotonic)
        self._browsers: Buckets[str] = Buckets(rates.pair_per_hour, HOUR_SECONDS, monotonic=monotonic)
        self._addresses: Buckets[str] = Buckets(rates.address_per_hour, HOUR_SECONDS, monotonic=monotonic)
        self._emails: Buckets[str] = Buckets(rates.email_per_hour, HOUR_SECONDS, monotonic=monotonic)
        self._tally: Tally[tuple[str, str, bool]] = Tally(HOUR_SECONDS, monotonic=monotonic)
        self._known = RecentAddresses("known-seller", rates.known_hours * HOUR_SECONDS, signals, monotonic=monotonic)

    def refusal(self, email: str, address: str, *, known_browser: bool = False) -> int | None:
        """The seconds to wait before this may be tried, or None where it may be tried now. Asked before any hashing.

        `known_browser`: it carries the proof that this very seller has signed in with it before.
        """
        subject, place = _subject(email), network(address)
        if self._has_own_budget(subject, known_browser):
            return None
        if self._known.has(subject, place):
            seconds = self._pairs.wait((subject, place))
        else:
            seconds = max(self._pairs.wait((subject, place)), self._addresses.wait(place), self._emails.wait(subject))
        if seconds:
            self._log.note("sign_in_failures", address=place)
        return seconds or None

    def failed(self, email: str, address: str, *, known_browser: bool = False) -> bool:
        """Count a wrong password or an unknown e-mail address; True where operators are to be alerted."""
        subject, place = _subject(email), network(address)
        alerts = self._tally.add((subject, place, known_browser)) % FAILURES_PER_ALERT == 0
        self._charge(subject, place, known_browser=known_browser)
        return alerts

    def _charge(self, subject: str, place: str, *, known_browser: bool) -> None:
        if self._has_own_budget(subject, known_browser):
            self._browsers.charge(subject)
            return
        self._pairs.charge((subject, place))
        if not self._known.has(subject, place):
            self._addresses.charge(place)
            self._emails.charge(subject)

    def succeeded(self, email: str, address: str, *, known_browser: bool = False) -> None:
        """The seller signed in: the address is known from now on, and what was mistyped is forgotten.

        Not what others tried from that address while the browser had a budget of its own.
        """
        subject, place = _subject(email), network(address)
        self._known.add(subject, place)
        self._tally.forget((subject, place, known_browser))
        if known_browser:
            self._browsers.forget(subject)
        else:
            self._pairs.forget((subject, place))

    def knows(self, email: str, address: str, *, known_browser: bool = False) -> bool:
        """Whether this is no stranger's try: the browser is known, or the address is."""
        return known_browser or self._known.has(_subject(email), network(address))

    def _has_own_budget(self, subject: str, known_browser: bool) -> bool:  # noqa: FBT001 - private
        return known_browser and not self._browsers.wait(subject)


def _subject(email: str) -> str:
    return digest(email.strip().lower()).hex()
