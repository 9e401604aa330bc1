"""The clock of `paydesk serve`: the machine's clock, compared with a monotonic clock and with PostgreSQL's clock.

While a comparison fails, no decision depends on the time: requests get 503, no order expires, nothing is pruned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import structlog

from paydesk.core import runtime
from paydesk.platform.health import store
from paydesk.platform.storage.database import Database, Unavailable
from paydesk.platform.worker import WorkerContext

JUMP_SECONDS_MAX = 300
DIFFERENCE_SECONDS_MAX = 30
WARNING_SECONDS = 5
COMPARE_SECONDS, COMPARE_UNTRUSTED_SECONDS = 60.0, 5.0
"""Between comparisons with the database's clock: normally, and while this node's clock is not trusted."""
SECOND_NS = 1_000_000_000

log = structlog.get_logger("clock")


class ClockNotTrusted(Unavailable):
    """This node's clock or the database's clock is wrong. Nothing was done: no expiry, no refusal, no pruning."""

    message = "The clock of this node or of the database is wrong; nothing was done."
    event = ""


class ClockJumped(ClockNotTrusted):
    """The wall clock was set while the process ran."""

    event = "clock_jumped"


class ClockDiffers(ClockNotTrusted):
    """The wall clock and the database's clock differ by more than `clock_difference_seconds_max`."""

    event = "clock_differs"


class WatchedClock:
    """The machine's clock, trusted while it is close to its value at the start and to the database's clock.

    Both are kept as differences from the monotonic clock: the next reading detects that the wall clock was set, or set
    right again. The database's clock is only queried once a minute.
    """

    def __init__(
        self,
        wall_ns: Callable[[], int] = runtime.wall_ns,
        steady_ns: Callable[[], int] = runtime.boot_ns,
        *,
        difference_seconds_max: int = DIFFERENCE_SECONDS_MAX,
    ) -> None:
        self._wall_ns, self._steady_ns = wall_ns, steady_ns
        self._difference_ns_max = difference_seconds_max * SECOND_NS
        self._start_ns = wall_ns() - steady_ns()
        self._lowest_ns = self._start_ns - JUMP_SECONDS_MAX * SECOND_NS
        self._highest_ns = self._start_ns + JUMP_SECONDS_MAX * SECOND_NS
        self._database_ns: int | None = None
        self._agreed = False
        self._refused = ""

    @property
    def is_trusted(self) -> bool:
        """Whether the last reading was accepted."""
        return not self._refused

    @property
    def difference_seconds(self) -> float:
        """How far this clock is ahead of PostgreSQL's; 0 before the first comparison, and on SQLite."""
        apart_ns = self._wall_ns() - self._steady_ns()
        return 0.0 if self._database_ns is None else (apart_ns - self._database_ns) / SECOND_NS

    def now_ms(self) -> int:
        """Return milliseconds since 1970 in UTC. Raises `ClockNotTrusted`."""
        now_ns = self._wall_ns()
        apart_ns = now_ns - self._steady_ns()
        if not self._lowest_ns <= apart_ns <= self._highest_ns:
            self._refuse(apart_ns)
        if self._refused:
            self._refused = ""
            log.warning("clock_trusted")
        return now_ns // 1_000_000

    def _refuse(self, apart_ns: int) -> NoReturn:
        jumped = (apart_ns - self._start_ns) / SECOND_NS
        if self._database_ns is None or abs(jumped) > JUMP_SECONDS_MAX:
            error: ClockNotTrusted = ClockJumped(f"the wall clock jumped by {jumped:.0f} s since this process started")
            seconds = jumped
        else:
            seconds = (apart_ns - self._database_ns) / SECOND_NS
            side = "ahead of" if seconds > 0 else "behind"
            error = ClockDiffers(f"the wall clock is {abs(seconds):.0f} s {side} the database's")
        if self._refused != error.event:
            self._refused = error.event
            log.error(error.event, seconds=round(seconds), reason=str(error))
        raise error

    async def compare(self, database: Database) -> None:
        """Compare this clock with PostgreSQL's. SQLite has no clock of its own.

        Half of the round trip is added to the permitted difference. Until the two have agreed once, setting the clock
        right does not count as a jump.
        """
        if database.name == "sqlite":
            return
        began_ns = self._steady_ns()
        database_ms = await database.read(store.clock_ms)
        uncertainty_ns = (self._steady_ns() - began_ns) // 2
        self._database_ns = database_ns = database_ms * 1_000_000 - (began_ns + uncertainty_ns)
        apart_ns = self._wall_ns() - self._steady_ns()
        difference_ns = apart_ns - database_ns
        allowed_ns = self._difference_ns_max + uncertainty_ns
        if not self._agreed:
            self._start_ns, self._agreed = apart_ns, abs(difference_ns) <= allowed_ns
        self._lowest_ns = max(self._start_ns - JUMP_SECONDS_MAX * SECOND_NS, database_ns - allowed_ns)
        self._highest_ns = min(self._start_ns + JUMP_SECONDS_MAX * SECOND_NS, database_ns + allowed_ns)
        # More than synchronized clocks have.
        if WARNING_SECONDS * SECOND_NS < abs(difference_ns) - uncertainty_ns <= self._difference_ns_max:
            log.warning(
                "clock_differs",
                seconds=round(difference_ns / SECOND_NS, 1),
                error_seconds=round(uncertainty_ns / SECOND_NS, 1),
                seconds_max=self._difference_ns_max // SECOND_NS,
            )
        with suppress(ClockNotTrusted):
            self.now_ms()


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Compare the clock with the database's every minute until `stop` is set, except that of `paydesk dev`."""
    clock = context.clock
    if not isinstance(clock, WatchedClock):
        await stop.wait()
        return
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), COMPARE_SECONDS if clock.is_trusted else COMPARE_UNTRUSTED_SECONDS)
        except TimeoutError:
            await clock.compare(context.database)
