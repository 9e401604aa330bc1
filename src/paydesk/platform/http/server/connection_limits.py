"""Connection limits of a listener: timeouts, the number of connections, and the eviction of one for another.

At most `connections_max` connections are served, and at most `connections_per_address_max` of one address. Each new one
beyond that evicts another or is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from operator import itemgetter

from paydesk.core.limits.rates import network
from paydesk.core.limits.throttle_log import ThrottleLog
from paydesk.core.metrics import Counter, Gauge, Labels
from paydesk.platform.http.refusals.repeated import RepeatedRefusals
from paydesk.platform.http.request import is_trusted
from paydesk.platform.http.server.connection_state import Evictable, State
from paydesk.platform.settings import Settings

RECENT_SECONDS = 0.25
"""Time after which the first request of a new connection has arrived, and an active client has sent its next."""

UNFINISHED_SHARE = 4
"""At most a quarter of the connections may be new, without a request, and evict idle connections."""

ACCEPTS_PER_TURN_MAX = 128
ACCEPTS_SHARE = 8
"""The first request of a connection is read a few loop iterations after its accept; this bounds how many follow."""


REFUSED = Counter(
    "paydesk_http_connections_refused_total", "Connections that a limit refused or ended, by the limit.", "reason"
)
CONNECTIONS = Gauge("paydesk_http_connections", "Open connections, by what they do.", "state")


class ConnectionLimits:
    """The limits that the connections of a listener share. Only those in one of the four states can be evicted.

    `unfinished`: has not sent a whole request yet. `stalled`: does not read its answers. `pipelining`: has sent further
    requests before the answer. `idle`: has no running request.
    """

    def __init__(self, settings: Settings) -> None:
        self.head_seconds = settings.head_timeout_seconds
        self.body_seconds = settings.body_timeout_seconds
        self.write_seconds = settings.write_timeout_seconds
        self.keep_alive_seconds = settings.keep_alive_seconds
        self.trusted_proxies = settings.trusted_proxies
        self.references_checked = settings.card_numbers_refused_in_references
        self.draining = False
        self.unfinished: State = {}
        self.stalled: State = {}
        self.pipelining: State = {}
        self.idle: State = {}
        self._states = (self.unfinished, self.stalled, self.pipelining, self.idle)
        self._connections_max = settings.connections_max
        self._per_address_max = settings.connections_per_address_max
        self._addresses: dict[str, State] = {}
        self._log, self.repeated = ThrottleLog(), RepeatedRefusals()

    @property
    def accepts_per_turn(self) -> int:
        """Return how many connections may be accepted in one iteration of the event loop."""
        return max(1, min(ACCEPTS_PER_TURN_MAX, self._connections_max // ACCEPTS_SHARE))

    def admit(self, connection: Evictable, count: int) -> bool:
        """Add a new connection, the `count`th. Returns False if it must be refused: no other can be evicted."""
        address = self._limited_address(connection)
        peers = self._addresses.get(address, {})
        limit = self._per_address_max
        if address and len(peers) >= limit and not self._evict(limit, self._states_of(peers)):
            return self.note("connections_per_address", connection)
        if count > self._connections_max and not self._evict(self._connections_max, self._states):
            return self.note("connections", connection)
        now = asyncio.get_running_loop().time()
        if address:
            self._addresses.setdefault(address, peers)[connection] = now
        connection.enter(self.unfinished, now)
        return True

    def forget(self, connection: Evictable) -> None:
        """Remove a connection."""
        connection.enter(None)
        address = self._limited_address(connection)
        peers = self._addresses.get(address)
        if peers is not None:
            peers.pop(connection, None)
            if not peers:
                del self._addresses[address]

    def note(self, what: str, connection: Evictable) -> bool:
        """Log that a limit was reached, several events in one line. Always returns False."""
        REFUSED.add(what)
        self._log.note(what, address=connection.client[0] if connection.client else "")
        return False

    def by_state(self, count: int) -> dict[Labels, float]:
        """Return how many of `count` open connections are in each state, and how many are served a request."""
        names = ("unfinished", "stalled", "pipelining", "idle")
        found: dict[Labels, float] = {(name,): len(state) for name, state in zip(names, self._states, strict=True)}
        return {**found, ("serving",): count - sum(found.values())}

    def close(self) -> None:
        """Close every connection without a running request."""
        for connection in (*self.unfinished, *self.idle):
            connection.close()

    def _limited_address(self, connection: Evictable) -> str:
        """Return the address that the connection counts for, or an empty string for unlimited ones."""
        if not self._per_address_max or connection.client is None:
            return ""
        address = connection.client[0]
        return "" if is_trusted(address, self.trusted_proxies) else network(address)

    def _states_of(self, peers: State) -> Iterator[State]:
        """Yield, for each state, the connections among `peers` in the order in which they entered it."""
        for state in self._states:
            yield dict(sorted(((one, state[one]) for one in peers if one in state), key=itemgetter(1)))

    def _evict(self, connections_max: int, states: Iterable[State]) -> bool:
        """Abort the connection in `states` whose loss is least harmful; return False if there is none."""
        connection = next(self._evictable(connections_max, *states), None)
        if connection is None:
            return False
        self.forget(connection)
        connection.abort()
        return True

    def _evictable(
        self, connections_max: int, unfinished: State, stalled: State, pipelining: State, idle: State
    ) -> Iterator[Evictable]:
        """Yield the connections that can be evicted, the least harmful first.

        Connections without a whole request evict each other, unless they are few and recent: then they may be clients
        that all reconnect, and idle connections are evicted instead. The number accepted in one loop iteration always
        counts as few, because none of their requests can have been read.
        """
        recent = asyncio.get_running_loop().time() - RECENT_SECONDS
        few = len(unfinished) <= max(connections_max // UNFINISHED_SHARE, self.accepts_per_turn)
        yield from (one for one, since in unfinished.items() if since < recent or not few)
        yield from stalled
        yield from pipelining
        yield from (one for one, since in idle.items() if since < recent)
        yield from unfinished
        yield from idle
