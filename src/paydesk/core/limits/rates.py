"""Rate limits: token buckets in a bounded table, and which IP addresses count as one."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from itertools import islice
from typing import Generic, TypeVar

from paydesk.core import runtime

SECOND_NS = 1_000_000_000
ENTRIES_MAX = 20_000

_LOOKED_AT = 4
_ADDRESS_CHARACTERS_MAX = 64
_V6_SUBSCRIBER_BITS = 64

K = TypeVar("K", bound=Hashable)
Monotonic = Callable[[], int]


class Buckets(Generic[K]):
    """A token bucket per key: `burst` tokens, refilled at `count` per `seconds`. A count of 0 turns the limit off.

    Each of a node's `processes` has an equal part of the limit, at least one token at once.

    Only the instant at which a bucket will be full is stored; a full bucket needs no entry. A full table evicts the
    fullest of its oldest buckets, and an evicted key starts with a full bucket.
    """

    def __init__(
        self,
        count: int,
        seconds: int = 1,
        burst: int = 0,
        *,
        processes: int = 1,
        entries_max: int = ENTRIES_MAX,
        monotonic: Monotonic = runtime.monotonic_ns,
    ) -> None:
        depth = max((burst or count) // processes, 1)
        self._interval_ns = processes * seconds * SECOND_NS // count if count else 0
        self._used_ns_max = (depth - 1) * self._interval_ns
        self._owed_ns_max = 2 * depth * self._interval_ns
        self._entries_max, self._monotonic = entries_max, monotonic
        # In order of insertion. In a plain dict, finding the first entry gets slower after many deletions.
        self._full_at: OrderedDict[K, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: K) -> int:
        """Take a token and return 0; from an empty bucket take nothing and return the whole seconds to wait."""
        interval_ns = self._interval_ns
        if not interval_ns:
            return 0
        now, table = self._monotonic(), self._full_at
        full_at = table.get(key)
        if full_at is None:
            self._make_room(now)
        if full_at is None or full_at <= now:
            table[key] = now + interval_ns
            return 0
        if full_at - now > self._used_ns_max:
            return _whole_seconds(full_at - now - self._used_ns_max)
        table[key] = full_at + interval_ns
        return 0

    def wait(self, key: K) -> int:
        """Return what `take` would return, without taking a token."""
        full_at = self._full_at.get(key)
        if full_at is None:
            return 0
        missing_ns = full_at - self._monotonic() - self._used_ns_max
        return _whole_seconds(missing_ns) if missing_ns > 0 else 0

    def charge(self, key: K) -> None:
        """Take a token even from an empty bucket, down to minus one burst, for requests that ran concurrently."""
        if self._interval_ns:
            now = self._monotonic()
            used_ns = max(self._full_at.get(key, 0) - now, 0)
            if key not in self._full_at:
                self._make_room(now)
            self._full_at[key] = now + min(used_ns + self._interval_ns, self._owed_ns_max)

    def put_back(self, key: K) -> None:
        """Put back a token that was taken, unless the bucket was refilled or evicted since."""
        if key in self._full_at:
            self._full_at[key] -= self._interval_ns

    def forget(self, key: K) -> None:
        """Refill the bucket."""
        self._full_at.pop(key, None)

    def _make_room(self, now: int) -> None:
        """Drop the full buckets among the oldest, and if the table is still full the fullest of these."""
        oldest = list(islice(self._full_at, _LOOKED_AT))
        for key in oldest:
            if self._full_at[key] <= now:
                del self._full_at[key]
        if len(self._full_at) >= self._entries_max:
            del self._full_at[min(islice(self._full_at, _LOOKED_AT), key=self._full_at.__getitem__)]


class Tally(Generic[K]):
    """Counts events per key in windows of `seconds`, which begin with the first event."""

    def __init__(self, seconds: int, monotonic: Monotonic) -> None:
        self._window_ns, self._monotonic = seconds * SECOND_NS, monotonic
        self._counts: OrderedDict[K, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, key: K) -> int:
        """Increment and return the count of the key's window. A full table drops the oldest window."""
        now = self._monotonic()
        end, count = self._counts.pop(key, (0, 0))
        if end <= now:
            end, count = now + self._window_ns, 0
        if len(self._counts) >= ENTRIES_MAX:
            self._counts.popitem(last=False)
        self._counts[key] = end, count + 1
        return count + 1

    def forget(self, key: K) -> None:
        """End the key's window."""
        self._counts.pop(key, None)


def network(address: str) -> str:
    """Return what counts as one address: the /64 of an IPv6 subscriber; an IPv4-mapped address as IPv4."""
    return _network(address) if ":" in address else address[:_ADDRESS_CHARACTERS_MAX]


@lru_cache(10_000)
def _network(text: str) -> str:
    """Parse an address with or without a port, which some proxies append."""
    host = text[1:].partition("]")[0] if text.startswith("[") else text
    if host.count(":") == 1:
        return host.partition(":")[0][:_ADDRESS_CHARACTERS_MAX]
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return text[:_ADDRESS_CHARACTERS_MAX]
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), _V6_SUBSCRIBER_BITS), strict=False))


def _whole_seconds(nanoseconds: int) -> int:
    return -(-nanoseconds // SECOND_NS)
