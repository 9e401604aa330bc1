"""Limits on failed sign-ins, of sellers and of operators apart.

Each node counts for itself, by the monotonic clock; the addresses of successful sign-ins are shared among the nodes, so
that an attacker's failures don't lock out a seller at a known address. E-mail addresses are kept as digests, whether a
seller has them or not, so nothing here reveals which exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from paydesk.core import runtime
from paydesk.core.rates import Buckets, Monotonic, Tally, network
from paydesk.core.recent_addresses import RecentAddresses
from paydesk.core.secrets import digest
from paydesk.core.signals import Signals
from paydesk.core.text import canonical_email
from paydesk.core.throttle_log import ThrottleLog

HOUR_SECONDS = 3600
FAILURES_PER_ALERT = 5
"""Operators are alerted at every fifth failure with one e-mail address from one address within an hour."""


@dataclass(frozen=True, slots=True)
class SignInRates:
    """Failed sign-ins per hour; 0 means no limit. `known_hours`: how long the address of a sign-in stays known."""

    pair_per_hour: int = 30
    """For one e-mail address from one address, and for all known browsers of a seller together."""
    address_per_hour: int = 300
    email_per_hour: int = 100
    known_hours: int = 24
    processes: int = 1
    """Of a node; each has an equal part of the limits."""


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

    def refusal(self, email: str, address: str, *, known_browser: bool = False) -> int | None:
        """Return the seconds until this sign-in may be tried, or None if it may now. Call it before hashing.

        `known_browser`: the browser's signed cookie shows that this seller has signed in with it before.
        """
        subject, origin = _subject(email), network(address)
        if self._has_own_limit(subject, known_browser):
            return None
        if self._recent.has(subject, origin):
            seconds = self._pairs.wait((subject, origin))
        else:
            seconds = max(self._pairs.wait((subject, origin)), self._addresses.wait(origin), self._emails.wait(subject))
        if seconds:
            self._log.note("sign_in_failures", address=origin)
        return seconds or None

    def failed(self, email: str, address: str, *, known_browser: bool = False) -> bool:
        """Count a wrong password or an unknown e-mail address. Return whether operators should be alerted."""
        subject, origin = _subject(email), network(address)
        alerts = self._tally.add((subject, origin, known_browser)) % FAILURES_PER_ALERT == 0
        self._charge(subject, origin, known_browser=known_browser)
        return alerts

    def _charge(self, subject: str, origin: str, *, known_browser: bool) -> None:
        if self._has_own_limit(subject, known_browser):
            self._browsers.charge(subject)
            return
        self._pairs.charge((subject, origin))
        if not self._recent.has(subject, origin):
            self._addresses.charge(origin)
            self._emails.charge(subject)

    def succeeded(self, email: str, address: str, *, known_browser: bool = False) -> None:
        """Make the address a known one and reset the count of failures.

        A known browser resets its own count only, not that of other attempts from the same address.
        """
        subject, origin = _subject(email), network(address)
        self._recent.add(subject, origin)
        self._tally.forget((subject, origin, known_browser))
        if known_browser:
            self._browsers.forget(subject)
        else:
            self._pairs.forget((subject, origin))

    def is_known_origin(self, email: str, address: str, *, known_browser: bool = False) -> bool:
        """Return whether the browser or the address of the sign-in is known for this seller."""
        return known_browser or self._recent.has(_subject(email), network(address))

    def _has_own_limit(self, subject: str, known_browser: bool) -> bool:  # noqa: FBT001 - private
        return known_browser and not self._browsers.wait(subject)


def _subject(email: str) -> str:
    return digest(canonical_email(email)).hex()
