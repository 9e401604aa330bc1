"""How often a sign-in may fail, and how no stranger's failures keep the seller out.

The tables are this node's own and by the monotonic clock. E-mail addresses are kept as digests, known ones and unknown
ones alike: whether there is such a seller shows nowhere.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from paydesk.rates import Buckets, Known, Monotonic, network
from paydesk.secrets import digest
from paydesk.throttle_log import ThrottleLog

HOUR_SECONDS = 3600


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
    nothing of what strangers do with the seller's e-mail address.
    """

    def __init__(
        self,
        rates: SignInRates,
        log: ThrottleLog | None = None,
        *,
        monotonic: Monotonic = time.monotonic_ns,
    ) -> None:
        self._log = log or ThrottleLog()
        self._pairs: Buckets[tuple[bytes, str]] = Buckets(rates.pair_per_hour, HOUR_SECONDS, monotonic=monotonic)
        self._browsers: Buckets[bytes] = Buckets(rates.pair_per_hour, HOUR_SECONDS, monotonic=monotonic)
        self._addresses: Buckets[str] = Buckets(rates.address_per_hour, HOUR_SECONDS, monotonic=monotonic)
        self._emails: Buckets[bytes] = Buckets(rates.email_per_hour, HOUR_SECONDS, monotonic=monotonic)
        self._known: Known[bytes] = Known(rates.known_hours * HOUR_SECONDS, monotonic=monotonic)

    def refusal(self, email: str, address: str, *, known_browser: bool = False) -> int | None:
        """The seconds to wait before this may be tried, or None where it may be tried now. Asked before any hashing.

        `known_browser`: it carries the proof that this very seller has signed in with it before.
        """
        subject, place = _subject(email), network(address)
        if known_browser:
            seconds = self._browsers.wait(subject)
        elif self._known.has(subject, place):
            seconds = self._pairs.wait((subject, place))
        else:
            seconds = max(self._pairs.wait((subject, place)), self._addresses.wait(place), self._emails.wait(subject))
        if seconds:
            self._log.note("sign-ins", place)
        return seconds or None

    def failed(self, email: str, address: str, *, known_browser: bool = False) -> None:
        """The password was wrong, or there is nobody of that e-mail address."""
        subject, place = _subject(email), network(address)
        if known_browser:
            self._browsers.charge(subject)
            return
        self._pairs.charge((subject, place))
        if not self._known.has(subject, place):
            self._addresses.charge(place)
            self._emails.charge(subject)

    def succeeded(self, email: str, address: str) -> None:
        """The seller signed in: the address is known from now on, and what was mistyped there is forgotten."""
        subject, place = _subject(email), network(address)
        self._known.add(subject, place)
        self._pairs.forget((subject, place))
        self._browsers.forget(subject)

    def knows(self, email: str, address: str, *, known_browser: bool = False) -> bool:
        """Whether this is no stranger's try: the browser is known, or the address is."""
        return known_browser or self._known.has(_subject(email), network(address))


def _subject(email: str) -> bytes:
    return digest(email.strip().lower())
