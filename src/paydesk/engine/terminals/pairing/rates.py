"""The limits on pairing: of terminals' requests per address, of the polls of one pairing, and of operators' guesses."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial
from weakref import WeakValueDictionary

from paydesk.core import runtime
from paydesk.core.errors import TOO_MANY_REQUESTS, Refusal
from paydesk.core.limits.rates import SECOND_NS, Buckets, Monotonic, network
from paydesk.core.limits.throttle_log import ThrottleLog

MINUTE_SECONDS = 60
INTERVAL_SECONDS = 3
SLOWER_SECONDS = 5
"""Time that `slow_down` adds to the interval of a pairing (RFC 8628 section 3.5)."""
INTERVAL_SECONDS_MAX = 60
TOLERANCE_NS = SECOND_NS // 2
"""Polls may arrive this much closer together than they were sent."""
ENTRIES_MAX = 20_000
FULL_SECONDS = 1
FULL_RETRY_SECONDS = 30
"""The time after which clients retry when too many pairings are open."""


class PairingRates:
    """The limits of one of a node's `processes`; 0 turns one off."""

    def __init__(
        self,
        log: ThrottleLog,
        *,
        pairings_per_minute_address: int,
        polls_per_minute_address: int,
        failures_per_minute: int,
        processes: int = 1,
        monotonic: Monotonic = runtime.monotonic_ns,
    ) -> None:
        self._log, self._monotonic = log, monotonic
        per_minute = partial(Buckets, seconds=MINUTE_SECONDS, processes=processes, monotonic=monotonic)
        self._pairings: Buckets[str] = per_minute(pairings_per_minute_address)
        self._polls: Buckets[str] = per_minute(polls_per_minute_address)
        self._wrong_codes: Buckets[str] = per_minute(failures_per_minute)
        self._full_until = 0
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # When the next poll of a pairing is due, and its interval, by the digest of its device code.
        self._due: OrderedDict[bytes, tuple[int, int]] = OrderedDict()

    def count_pairing(self, address: str) -> None:
        """Count a new pairing. Raises `too_many_requests`."""
        self._take(self._pairings, "pairings", address)

    def refuse_while_full(self) -> None:
        """Raise `too_many_requests` for `FULL_SECONDS` after `full`: a flood does not count open pairings each time."""
        if self._monotonic() < self._full_until:
            raise self._full()

    def full(self) -> Refusal:
        """Return the refusal of a pairing because too many are open."""
        self._full_until = self._monotonic() + FULL_SECONDS * SECOND_NS
        return self._full()

    def _full(self) -> Refusal:
        self._log.note("pairings_open")
        return too_many("pairings_open_max is reached", FULL_RETRY_SECONDS)

    def count_poll(self, address: str) -> None:
        """Count a poll, of whatever device code. Raises `too_many_requests`."""
        self._take(self._polls, "pairing_polls", address)

    def is_too_fast(self, device_digest: bytes) -> bool:
        """Count a poll of a pending pairing; return whether it came too early, which makes the interval longer.

        The table is bounded: a pairing whose entry was dropped begins with the first interval again.
        """
        now = self._monotonic()
        due, interval_ns = self._due.pop(device_digest, (0, INTERVAL_SECONDS * SECOND_NS))
        is_early = now < due
        if is_early:
            interval_ns = min(interval_ns + SLOWER_SECONDS * SECOND_NS, INTERVAL_SECONDS_MAX * SECOND_NS)
        while len(self._due) >= ENTRIES_MAX:
            self._due.popitem(last=False)
        self._due[device_digest] = now + interval_ns - TOLERANCE_NS, interval_ns
        return is_early

    def turn(self, operator_id: str) -> asyncio.Lock:
        """Return the lock that lets an operator try one code at a time, so that wrong ones sent at once are counted."""
        return self._turns.setdefault(operator_id, asyncio.Lock())

    def check_operator(self, operator_id: str) -> None:
        """Refuse an operator who has sent too many wrong codes. Raises `too_many_requests`."""
        seconds = self._wrong_codes.wait(operator_id)
        if seconds:
            self._log.note("pairing_failures", operator_id=operator_id)
            raise too_many("operator sent too many wrong codes", seconds)

    def count_wrong_code(self, operator_id: str) -> None:
        """Count a code of the operator that no pending pairing has."""
        self._wrong_codes.charge(operator_id)

    def _take(self, buckets: Buckets[str], what: str, address: str) -> None:
        source = network(address)
        seconds = buckets.take(source)
        if seconds:
            self._log.note(what, address=source)
            raise too_many(f"address exceeds {what}", seconds)


def too_many(reason: str, seconds: int) -> Refusal:
    """Return `too_many_requests` with `Retry-After`."""
    return TOO_MANY_REQUESTS.with_reason(reason, headers=(("retry-after", str(seconds)),))
