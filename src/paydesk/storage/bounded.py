"""A database with room for so many requests: one more is refused at once instead of waiting behind all the others.

Who is refused early costs little and repeats; who waits in a long queue gives up, repeats too, and the queue is full of
requests that nobody waits for any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable
from types import TracebackType

from paydesk.storage.database import Database, T, Unavailable, Work

STALL_SECONDS = 1.0
FEW = 16


class Busy(Unavailable):
    """There is no room for this unit of work, or the database answers none of those that wait; it did not run."""

    message = "The service has more to do than it can; the same key tells whether anything was done."


class Room:
    """Counts the units of work under way.

    A database from which no answer has come for `STALL_SECONDS`, though more than a few wait for one, hangs: until one
    comes only those few are let in, to find out. A database that is away answers nobody either.
    """

    def __init__(self, units_max: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._units_max, self._monotonic = units_max, monotonic
        self._under_way = 0
        self._since, self._failing = monotonic(), False

    def __enter__(self) -> None:
        if self._under_way >= self._units_max:
            raise Busy(f"{self._under_way} units of work are under way")
        if self._under_way < FEW:
            if not self._failing:
                self._since = self._monotonic()
        elif self._monotonic() - self._since > STALL_SECONDS:
            raise Busy(f"no answer from the database for {STALL_SECONDS} s, and {self._under_way} wait for one")
        self._under_way += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._under_way -= 1
        if kind is None or not isinstance(error, Unavailable | asyncio.CancelledError | GeneratorExit):
            self._since, self._failing = self._monotonic(), False
        elif isinstance(error, Unavailable):
            self._failing = True


class BoundedDatabase:
    """The database behind it, for as many units of work at once as there is room for. Raises `Busy` beyond that."""

    def __init__(self, database: Database, units_max: int) -> None:
        self._database, self._room = database, Room(units_max)
        self.name, self.signals = database.name, database.signals

    async def write(self, work: Work[T], *, conflict_keys: Iterable[Hashable] = ()) -> T:
        """Run `work`, or refuse it at once."""
        with self._room:
            return await self._database.write(work, conflict_keys=conflict_keys)

    async def read(self, work: Work[T], *, heavy: bool = False) -> T:
        """Run `work`, or refuse it at once."""
        with self._room:
            return await self._database.read(work, heavy=heavy)

    async def check_writable(self) -> None:
        """Ask the database behind it."""
        await self._database.check_writable()

    async def close(self) -> None:
        """Close the database behind it."""
        await self._database.close()
