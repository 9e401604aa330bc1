"""Signals: coroutines that wait for a change are notified after its commit.

A signal is a hint that something may have changed, never a fact: the notified coroutine reads the database, and one
whose signal is lost finds the change at its next poll. Topics are strings: `deliveries`, `faults`, `money`, `clock`,
`stop`, `remote_lost`, `returned`, `applications`, `sellers`, `terminal:<terminal_id>`, `moved:<terminal_id>`,
`device:<terminal_id>`, `events:<feed>`, `reads:<feed>`, `remote-events:<feed>`, `answer:<digest of an idempotency
key>`, `family:<family_id>`, `authorization:<authorization_id>`, `known-client:<client>:<address>`,
`known-seller:<digest>:<address>`, `known-operator:<digest>:<address>`, `hint:<noun>:<id>`, `watching`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Self

EVERYTHING = "everything"
"""Signals of other nodes may have been lost: caches that depend on any topic are cleared."""


class Signals:
    """The topics of one node, with the coroutines that wait on each and the listeners to each kind of topic."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}
        self._listeners: list[tuple[str, Callable[[str], None]]] = []
        self._listeners_of: dict[str, tuple[Callable[[str], None], ...]] = {}
        self.publish_remote: Callable[[Collection[str]], None] | None = None
        """Sends topics to the other nodes; None on a node without others."""
        self.remote_connected = False
        """Whether signals of other nodes arrive at once."""
        self.stopping = False
        self.watched = False
        """Whether a page for operators is open on this node or another: hints are published only then."""

    def listen(self, prefix: str, listener: Callable[[str], None]) -> None:
        """Call `listener(topic)` for every signal whose topic begins with `prefix`: a kind's name, or a part of it."""
        self._listeners.append((prefix, listener))
        self._listeners_of.clear()

    def notify(self, topics: Collection[str]) -> None:
        """Notify the waiters on these topics, on every node."""
        self.notify_local(topics)
        self.publish(topics)

    def notify_local(self, topics: Iterable[str]) -> None:
        """Notify the waiters on this node."""
        for topic in topics:
            for waiter in self._waiters.pop(topic, ()):
                if not waiter.done():
                    waiter.set_result(None)
            name, colon, _ = topic.partition(":")
            kind = name + colon
            listeners = self._listeners_of.get(kind)
            if listeners is None:
                listeners = tuple(listener for prefix, listener in self._listeners if kind.startswith(prefix))
                self._listeners_of[kind] = listeners
            for listener in listeners:
                listener(topic)

    def hint(self, noun: str, identity: str = "") -> None:
        """Hint to open pages that something they may show has changed. Does nothing while no page is open."""
        if self.watched:
            self.notify((f"hint:{noun}:{identity}",))

    def publish(self, topics: Collection[str]) -> None:
        """Notify the waiters on the other nodes; delivery is not guaranteed."""
        if self.publish_remote is not None:
            self.publish_remote(topics)

    def stop(self) -> None:
        """Set `stopping` and notify the waiters on `stop`: the node is shutting down."""
        self.stopping = True
        self.notify_local(("stop",))

    def waited_on(self) -> tuple[str, ...]:
        """Return the topics that have waiters on this node."""
        return tuple(self._waiters)

    def waiting(self, prefix: str) -> int:
        """Return how many coroutines of this node wait on topics that begin with `prefix`."""
        return sum(len(waiters) for topic, waiters in self._waiters.items() if topic.startswith(prefix))

    def subscribe(self, *topics: str) -> Waiter:
        """Return a waiter. Subscribe *before* reading the database, so that no signal in between is missed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for topic in topics:
            self._waiters.setdefault(topic, set()).add(waiter)
        return Waiter(self, topics, waiter)

    def forget(self, topics: Iterable[str], waiter: asyncio.Future[None]) -> None:
        """Remove a waiter."""
        for topic in topics:
            waiters = self._waiters.get(topic)
            if waiters is not None:
                waiters.discard(waiter)
                if not waiters:
                    del self._waiters[topic]


class Waiter:
    """A subscription to topics; a context manager, which removes it at the end."""

    __slots__ = ("_signals", "_topics", "_waiter")

    def __init__(self, signals: Signals, topics: tuple[str, ...], waiter: asyncio.Future[None]) -> None:
        self._signals, self._topics, self._waiter = signals, topics, waiter

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._signals.forget(self._topics, self._waiter)

    def notify(self) -> None:
        """Notify this waiter only."""
        if not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Return True when notified, False after `seconds`."""
        done, _ = await asyncio.wait((self._waiter,), timeout=max(seconds, 0))
        return bool(done)
