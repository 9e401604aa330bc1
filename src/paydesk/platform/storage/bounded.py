"""Load shedding: a database that refuses units of work above a limit at once instead of queueing them.

Rejecting early is cheap and clients retry. In a long queue clients time out and the server works on abandoned requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from types import TracebackType

from paydesk.core import runtime
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Database, T, Unavailable, Work
from paydesk.platform.storage.metrics import ERRORS

STALL_SECONDS = 1.0
PROBES_MAX = 16


class Busy(Unavailable):
    """The limit is reached, or the database does not respond to the units in progress. The unit did not run."""

    message = "The service is overloaded. The request may have been applied: retry with the same X-Idempotency-Key."


class Limiter:
    """Counts the units of work in progress and raises `Busy` above `units_max`.

    If the database has completed none for `STALL_SECONDS` while `PROBES_MAX` or more are in progress, it hangs or is
    unreachable: until one completes, only `PROBES_MAX` units are admitted.
    """

    def __init__(self, units_max: int, monotonic: Callable[[], float] = runtime.monotonic) -> None:
        self._units_max, self._monotonic = units_max, monotonic
        self._in_progress = 0
        self._completed_at, self._failing = monotonic(), False

    def __enter__(self) -> None:
        if self._in_progress >= self._units_max:
            ERRORS.add("busy")
            raise Busy(f"{self._in_progress} units of work are in progress")
        if self._in_progress < PROBES_MAX:
            if not self._failing:
                self._completed_at = self._monotonic()
        elif self._monotonic() - self._completed_at > STALL_SECONDS:
            ERRORS.add("busy")
            raise Busy(
                f"the database completed no unit of work for {STALL_SECONDS} s, and {self._in_progress} are in progress"
            )
        self._in_progress += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._in_progress -= 1
        if kind is None or not isinstance(error, Unavailable | asyncio.CancelledError | GeneratorExit):
            self._completed_at, self._failing = self._monotonic(), False
        elif isinstance(error, Unavailable):
            self._failing = True


class BoundedDatabase:
    """A database with a limit on the units of work in progress. Raises `Busy` above it."""

    def __init__(self, database: Database, units_max: int) -> None:
        self._database, self._limiter = database, Limiter(units_max)
        self.name, self.signals, self.silence = database.name, database.signals, database.silence

    async def write(self, work: Work[T], *, conflict_keys: Collection[ConflictKey] = ()) -> T:
        """Run `work`, or raise `Busy` at once."""
        with self._limiter:
            return await self._database.write(work, conflict_keys=conflict_keys)

    async def read(self, work: Work[T], *, heavy: bool = False) -> T:
        """Run `work`, or raise `Busy` at once."""
        with self._limiter:
            return await self._database.read(work, heavy=heavy)

    async def check_writable(self) -> None:
        """Check the underlying database."""
        await self._database.check_writable()

    async def close(self) -> None:
        """Close the underlying database."""
        await self._database.close()
