"""The connections of a listener: how long each may take, how many there may be, and which one makes room for another.

No more connections than `connections_max` are served, and of one address no more than `connections_per_address_max`.
Each new one beyond that ends another that can be evicted, or is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING

from paydesk.core.rates import network
from paydesk.core.throttle_log import ThrottleLog
from paydesk.settings import Settings

if TYPE_CHECKING:
    from paydesk.http.evictable import EvictableProtocol

LONG_SECONDS = 0.25
"""A request that was sent with its connection has long arrived, and a client in use has sent its next one."""

UNFINISHED_SHARE = 4
"""At most a quarter of the connections may be new ones that evict others without having sent a request."""

ACCEPTS_PER_TURN_MAX = 128
ACCEPTS_SHARE = 8
"""New connections need a few turns of the loop until their first request is read. Until then few others follow."""


State = dict["EvictableProtocol", float]
"""The connections in one state, each with the loop's time since when; the first has been in it for the longest."""


class Room:
    """What the connections of a listener share. Only those in one of the four states can be evicted.

    `unfinished`: has not sent a whole request yet. `stalled`: does not take its answers. `pipelining`: has sent further
    requests before it was answered. `idle`: has no request under way.
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
        self._unlimited = frozenset(map(network, settings.trusted_proxies))
        self._addresses: dict[str, State] = {}
        self._log = ThrottleLog()

    @property
    def accepts_per_turn(self) -> int:
        """How many connections may be accepted in one turn of the loop."""
        return max(1, min(ACCEPTS_PER_TURN_MAX, self._connections_max // ACCEPTS_SHARE))

    def admit(self, connection: EvictableProtocol, count: int) -> bool:
        """Count a new connection in, the `count`th. False where it must be refused, since no other can be evicted."""
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

    def forget(self, connection: EvictableProtocol) -> None:
        """The connection is gone."""
        connection.enter(None)
        address = self._limited_address(connection)
        peers = self._addresses.get(address)
        if peers is not None:
            peers.pop(connection, None)
            if not peers:
                del self._addresses[address]

    def note(self, what: str, connection: EvictableProtocol) -> bool:
        """Log that a limit was reached, many of them in one line. Always False."""
        self._log.note(what, address=connection.client[0] if connection.client else "")
        return False

    def close(self) -> None:
        """Close every connection that has no request under way."""
        for connection in (*self.unfinished, *self.idle):
            connection.close()

    def _limited_address(self, connection: EvictableProtocol) -> str:
        """What the connection is counted under, or nothing where it isn't."""
        if not self._per_address_max or connection.client is None:
            return ""
        address = network(connection.client[0])
        return "" if address in self._unlimited else address

    def _states_of(self, peers: State) -> Iterator[State]:
        """Yield of each state the connections among `peers`, in the order in which they entered it."""
        for state in self._states:
            yield dict(sorted(((one, state[one]) for one in peers if one in state), key=itemgetter(1)))

    def _evict(self, connections_max: int, states: Iterable[State]) -> bool:
        """End the connection in `states` whose end harms the least; False where there is none."""
        connection = next(self._evictable(connections_max, *states), None)
        if connection is None:
            return False
        self.forget(connection)
        connection.abort()
        return True

    def _evictable(
        self, connections_max: int, unfinished: State, stalled: State, pipelining: State, idle: State
    ) -> Iterator[EvictableProtocol]:
        """Yield the connections that can be evicted, the first of which harms the least.

        Connections without a whole request evict each other, unless they are few and young: then they may be clients
        that all reconnect, and make room among those that have been idle for long. Those accepted in one turn of the
        loop are few: none of their requests can have been read.
        """
        young = asyncio.get_running_loop().time() - LONG_SECONDS
        few = len(unfinished) <= max(connections_max // UNFINISHED_SHARE, self.accepts_per_turn)
        yield from (one for one, since in unfinished.items() if since < young or not few)
        yield from stalled
        yield from pipelining
        yield from (one for one, since in idle.items() if since < young)
        yield from unfinished
        yield from idle
