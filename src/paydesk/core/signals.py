"""Wakes: who waits for something to change is woken after the commit that changed it.

A wake is a hint that something may have changed, never a fact: whoever is woken looks in the database, and whoever is
not finds out without it, later. Topics are strings: `deliveries`, `money`, `clock`, `stop`, `unheard`, `applications`,
`sellers`, `terminal:<terminal_id>`, `moved:<terminal_id>`, `device:<terminal_id>`, `events:<feed>`, `reads:<feed>`,
`elsewhere:<feed>`, `answer:<digest of an idempotency key>`, `family:<family_id>`, `authorization:<authorization_id>`,
`known-client:<client>:<address>`, `known-seller:<digest>:<address>`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Self

EVERYTHING = "everything"
"""Any topic may have changed unheard: what is remembered is forgotten."""


class Signals:
    """The topics of one node, who waits on each, and who listens to a kind of topic."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}
        self._listeners: list[tuple[str, Callable[[str], None]]] = []
        self._listeners_of: dict[str, tuple[Callable[[str], None], ...]] = {}
        self.carry: Callable[[Collection[str]], None] | None = None
        """Takes topics to the other nodes, where there are any."""
        self.are_carried = False
        """Whether what happens on other nodes is heard at once."""
        self.stopping = False

    def listen(self, prefix: str, listener: Callable[[str], None]) -> None:
        """Call `listener(topic)` at every wake of a topic that begins with `prefix`: a kind's name, or a part of it."""
        self._listeners.append((prefix, listener))
        self._listeners_of.clear()

    def notify(self, topics: Collection[str]) -> None:
        """Wake everybody who waits on one of the topics, on every node."""
        self.notify_local(topics)
        self.publish(topics)

    def notify_local(self, topics: Iterable[str]) -> None:
        """Wake who waits on this node."""
        for topic in topics:
            for waiter in self._waiters.pop(topic, ()):
                if not waiter.done():
                    waiter.set_result(None)
            kind, colon, _ = topic.partition(":")
            for listener in self._listening(kind + colon):
                listener(topic)

    def _listening(self, kind: str) -> tuple[Callable[[str], None], ...]:
        listeners = self._listeners_of.get(kind)
        if listeners is None:
            listeners = tuple(listener for prefix, listener in self._listeners if kind.startswith(prefix))
            self._listeners_of[kind] = listeners
        return listeners

    def publish(self, topics: Collection[str]) -> None:
        """Wake who waits on the other nodes, soon and perhaps never."""
        if self.carry is not None:
            self.carry(topics)

    def stop(self) -> None:
        """The node ends: who waits on `stop` is woken, and whoever sees `stopping` begins to wait no more."""
        self.stopping = True
        self.notify_local(("stop",))

    def waited_on(self) -> tuple[str, ...]:
        """The topics that somebody waits on."""
        return tuple(self._waiters)

    def subscribe(self, *topics: str) -> Waiter:
        """Begin to wait *before* looking in the database, so that no wake in between is missed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for topic in topics:
            self._waiters.setdefault(topic, set()).add(waiter)
        return Waiter(self, topics, waiter)

    def forget(self, topics: Iterable[str], waiter: asyncio.Future[None]) -> None:
        """Nobody waits with this waiter any more."""
        for topic in topics:
            waiters = self._waiters.get(topic)
            if waiters is not None:
                waiters.discard(waiter)
                if not waiters:
                    del self._waiters[topic]


class Waiter:
    """One who waits; a context manager, so that it is always forgotten."""

    __slots__ = ("_signals", "_topics", "_waiter")

    def __init__(self, signals: Signals, topics: tuple[str, ...], waiter: asyncio.Future[None]) -> None:
        self._signals, self._topics, self._waiter = signals, topics, waiter

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._signals.forget(self._topics, self._waiter)

    def notify(self) -> None:
        """Wake this one alone."""
        if not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """True when woken, False when `seconds` have passed."""
        done, _ = await asyncio.wait((self._waiter,), timeout=max(seconds, 0))
        return bool(done)
