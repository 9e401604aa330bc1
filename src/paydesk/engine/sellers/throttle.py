"""Limits on failed sign-ins, of sellers and of operators apart.

Each node counts for itself, by the monotonic clock; the addresses of successful sign-ins are shared among the nodes, so
that an attacker's failures don't lock out a seller at a known address. E-mail addresses are kept as digests, whether a
seller has them or not, so nothing here reveals which exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from paydesk.core import runtime
from paydesk.core.limits.rates import Buckets, Monotonic, Tally, network
from paydesk.core.limits.recent_addresses import RecentAddresses
from paydesk.core.limits.throttle_log import ThrottleLog
from paydesk.core.secrets import digest
from paydesk.core.signals import Signals
from paydesk.core.text.characters import canonical_email

HOUR_SECONDS = 3600
FAILURES_PER_ALERT = 5
"""Operators are alerted at every fifth failure with one e-mail address from one address within an hour."""


@dataclass(frozen=True, slots=True)
class SignInRates:
    """Failed sign-ins per hour; 0 means no limit. `known_hours`: how long the address of a sign-in stays known."""

    pair_per_hour: int = 30
    """Failures for one e-mail address from one address, and for all known browsers of a seller together."""
    address_per_hour: int = 300
    email_per_hour: int = 100
    known_hours: int = 24
    processes: int = 1
    """Processes of a node; each has an equal part of the limits."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that counts as failed unless it succeeds, or raises before the password was compared."""

    key: tuple[str, str, bool]
    is_known_origin: bool
    """Whether the browser or the address is known for this account."""
    _counted: list[tuple[Buckets[Any], Any]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.withdraw()

    def withdraw(self) -> None:
        """Count the attempt no longer."""
        for bucket, key in self._counted:
            bucket.put_back(key)


class SignInThrottle:
    """Limits failed sign-ins by (e-mail, address), by address, and by e-mail over all addresses.

    A known browser, and an address from which the seller signed in recently, have limits of their own, so that attempts
    from elsewhere with the seller's e-mail address don't lock out the seller. A known browser over its limit is treated
    as unknown: a browser that signed in before a password change can't use up the seller's limit.
    """

    def __init__(
        self,
        rates: SignInRates,
        signals: Signals | None = None,
        log: ThrottleLog | None = None,
        *,
        accounts: str = "seller",
        monotonic: Monotonic = runtime.monotonic_ns,
    ) -> None:
        self._log = log or ThrottleLog()
        per_hour = partial(Buckets, seconds=HOUR_SECONDS, processes=rates.processes, monotonic=monotonic)
        self._pairs: Buckets[tuple[str, str]] = per_hour(rates.pair_per_hour)
        self._browsers: Buckets[str] = per_hour(rates.pair_per_hour)
        self._addresses: Buckets[str] = per_hour(rates.address_per_hour)
        self._emails: Buckets[str] = per_hour(rates.email_per_hour)
        self._tally: Tally[tuple[str, str, bool]] = Tally(HOUR_SECONDS, monotonic)
        self._recent = RecentAddresses(
            f"known-{accounts}", rates.known_hours * HOUR_SECONDS, signals, monotonic=monotonic
        )

    def begin(self, email: str, address: str, *, known_browser: bool = False) -> Attempt | int:
        """Count a sign-in as failed, before its password is hashed; or return the seconds until it may be tried.

        So sign-ins at the same time can't pass a limit together. `known_browser`: the browser's signed cookie shows
        that this account has signed in with it before.
        """
        subject, origin = digest(canonical_email(email)).hex(), network(address)
        is_recent = self._recent.has(subject, origin)
        limits: list[tuple[Buckets[Any], Any]] = [(self._pairs, (subject, origin))]
        if known_browser and not self._browsers.wait(subject):
            limits = [(self._browsers, subject)]
        elif not is_recent:
            limits += (self._addresses, origin), (self._emails, subject)
        seconds = max(bucket.wait(key) for bucket, key in limits)
        if seconds:
            self._log.note("sign_in_failures", address=origin)
            return seconds
        for bucket, key in limits:
            bucket.take(key)
        return Attempt((subject, origin, known_browser), known_browser or is_recent, limits)

    def failed(self, attempt: Attempt) -> bool:
        """Keep the count of an attempt with a wrong password. Return whether operators should be alerted."""
        return self._tally.add(attempt.key) % FAILURES_PER_ALERT == 0

    def succeeded(self, attempt: Attempt) -> None:
        """Make the address a known one and reset the count of failures.

        A known browser resets its own count only, not that of other attempts from the same address.
        """
        attempt.withdraw()
        subject, origin, known_browser = attempt.key
        self._recent.add(subject, origin)
        self._tally.forget(attempt.key)
        if known_browser:
            self._browsers.forget(subject)
        else:
            self._pairs.forget((subject, origin))


class SignInThrottles(dict[str, SignInThrottle]):
    """The throttles by the noun of their accounts: `seller` or `operator`."""
