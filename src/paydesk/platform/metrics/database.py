"""`/metrics/database`: what the database holds now, the same on every node. Each domain declares its `READINGS`.

A reading costs little however many orders there are: it uses an index of open rows, and counts up to a limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from paydesk.core.clock import Clock
from paydesk.core.limits.recent import Recent
from paydesk.core.metrics import Labels
from paydesk.platform.health.clock import WatchedClock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.storage.migrate import HISTORY

COUNTED_MAX = 10_001
"""Rows are counted up to this number, which says that there are more than 10,000."""
KEPT_SECONDS = 15.0


class DatabaseGauge(NamedTuple):
    """A number on the page; +Inf if there is none. One that `is_age` is read as an instant: before it the age is 0."""

    name: str
    text: str
    labels: Labels = ()
    is_age: bool = False


Columns = tuple[tuple[DatabaseGauge, Labels], ...]
"""For each column of a row its gauge, with the values of the labels."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A statement that returns one row with all values of the labels, and its arguments at the service's time."""

    sql: str
    columns: Columns
    args: Callable[[int, Settings], tuple[Any, ...]] = lambda _now_ms, _settings: ()


_OPEN = DatabaseGauge("paydesk_jobs_open", "Jobs that have not ended.", ("kind", "live"))
_AGE = DatabaseGauge("paydesk_jobs_oldest_age_seconds", "The age of the oldest one.", ("kind", "live"), is_age=True)
_OWED = DatabaseGauge("paydesk_worker_oldest_age_seconds", "How late a worker is.", ("worker",), is_age=True)
_CLOCK = DatabaseGauge("paydesk_clock_difference_seconds", "How far this node's clock is ahead of PostgreSQL's.")
_SIZE = DatabaseGauge("paydesk_database_size_bytes", "The size of the database.")
_SCHEMA = DatabaseGauge("paydesk_schema_version", "The number of the newest migration.")

# No form that both databases share.
_SIZES = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgres": "SELECT pg_database_size(current_database())",
}


def jobs(kind: str, *, live: bool) -> Columns:
    """Return the columns of a number of open jobs, and of the creation of the oldest."""
    return tuple((gauge, (kind, "true" if live else "false")) for gauge in (_OPEN, _AGE))


def owed(worker: str) -> Columns:
    """Return the column of the instant since which a worker's first row has been due."""
    return ((_OWED, (worker,)),)


class DatabaseMetrics:
    """The page, which a process reads at most once in 15 s; requests that come together share one."""

    def __init__(self, database: Database, clock: Clock, settings: Settings, readings: tuple[Reading, ...]) -> None:
        sql = f"SELECT ({_SIZES[database.name]}), (SELECT MAX(version) FROM {HISTORY})"
        self._readings = (*readings, Reading(sql, ((_SIZE, ()), (_SCHEMA, ()))))
        self._database, self._clock, self._settings = database, clock, settings
        self._recent = Recent(seconds_min=KEPT_SECONDS)

    async def page(self) -> str:
        """Return the page in the text format of Prometheus. Raises `Unavailable`."""
        page: str = await self._recent.get((), self._read)
        return page

    async def _read(self) -> str:
        now_ms, clock = self._clock.now_ms(), self._clock

        async def work(tx: Transaction) -> list[float | None]:
            readings, of = self._readings, self._settings
            return [value for one in readings for value in await tx.one(one.sql, *one.args(now_ms, of)) or ()]

        row = await self._database.read(work, heavy=True)
        columns = (*(column for reading in self._readings for column in reading.columns), (_CLOCK, ()))
        row.append(clock.difference_seconds if isinstance(clock, WatchedClock) else 0)
        return _as_text(now_ms, columns, row)


def _as_text(now_ms: int, columns: Columns, row: Iterable[float | None]) -> str:
    # Not at the start of the process: see `text`.
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry, gauges = CollectorRegistry(), dict[DatabaseGauge, Gauge]()
    for (of, labels), value in zip(columns, row, strict=True):
        if of not in gauges:
            gauges[of] = Gauge(of.name, of.text, of.labels, registry=registry)
        if of.is_age:
            number = 0 if value is None else max(now_ms - value, 0) / 1000
        else:
            number = math.inf if value is None else value
        (gauges[of].labels(*labels) if labels else gauges[of]).set(number)
    return generate_latest(registry).decode()
