"""`/metrics/database`: what the database holds now, the same on every node. Each domain declares its `READINGS`.

A reading costs little however many orders there are: it uses an index of open rows, and counts up to a limit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

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
"""A page is sent again for this long. If it takes a second to read, it is kept longer, see `Recent`."""

# No form that both databases share.
SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgres": "SELECT pg_database_size(current_database())",
}
SCHEMA = f"SELECT MAX(version) FROM {HISTORY}"


class DatabaseGauge(NamedTuple):
    """A number on the page: its name, its text, and its labels, whose values are few and fixed."""

    name: str
    text: str
    labels: Labels = ()


class Sample(NamedTuple):
    """A number with the values of its labels. Several with the same ones are added."""

    gauge: DatabaseGauge
    labels: Labels
    value: float


JOBS_OPEN = DatabaseGauge("paydesk_jobs_open", f"Open jobs, counted up to {COUNTED_MAX}.", ("kind", "live"))
JOBS_OLDEST = DatabaseGauge(
    "paydesk_jobs_oldest_age_seconds", "The age of the oldest open job; 0 without one.", ("kind", "live")
)
WORKER_OLDEST = DatabaseGauge(
    "paydesk_worker_oldest_age_seconds", "For how long the row that a worker owes first has been due.", ("worker",)
)
CLOCK_DIFFERENCE = DatabaseGauge(
    "paydesk_clock_difference_seconds", "How far this node's clock is ahead of PostgreSQL's."
)
DATABASE_SIZE = DatabaseGauge("paydesk_database_size_bytes", "The size of the database.")
SCHEMA_VERSION = DatabaseGauge("paydesk_schema_version", "The number of the newest migration.")


@dataclass(frozen=True, slots=True)
class Moment:
    """When the database is read, by the service's clock, and the settings that say what is due then."""

    now_ms: int
    settings: Settings

    def age(self, since_ms: int | None) -> float:
        """Return the seconds since a time; 0 without one, and for one that is to come."""
        return 0.0 if since_ms is None else max(self.now_ms - since_ms, 0) / 1000

    def jobs(self, kind: str, live: int, count: int, oldest_ms: int | None) -> tuple[Sample, Sample]:
        """Return how many jobs of a kind are open, and the age of the oldest."""
        labels = kind, "true" if live else "false"
        return Sample(JOBS_OPEN, labels, count), Sample(JOBS_OLDEST, labels, self.age(oldest_ms))

    def owed(self, worker: str, due_ms: int | None) -> Sample:
        """Return for how long the worker's first row has been due."""
        return Sample(WORKER_OLDEST, (worker,), self.age(due_ms))


Reading = Callable[[Transaction, Moment], Awaitable[Iterable[Sample]]]
"""Reads numbers in a unit of work: all that there can be, also those that are 0."""


class DatabaseMetrics:
    """The page, read at most once in 15 s by a process; requests that come together share one."""

    def __init__(self, database: Database, clock: Clock, settings: Settings, readings: tuple[Reading, ...]) -> None:
        self._database, self._clock, self._settings, self._readings = database, clock, settings, readings
        self._recent = Recent(seconds_min=KEPT_SECONDS)

    async def page(self) -> str:
        """Return the page in the text format of Prometheus. Raises `Unavailable`."""
        page: str = await self._recent.get((), self._read)
        return page

    async def _read(self) -> str:
        moment = Moment(self._clock.now_ms(), self._settings)

        async def work(tx: Transaction) -> list[Sample]:
            samples = [sample for reading in self._readings for sample in await reading(tx, moment)]
            for gauge, sql in ((DATABASE_SIZE, SIZE[self._database.name]), (SCHEMA_VERSION, SCHEMA)):
                row = await tx.one(sql)
                assert row is not None, "it selects one row"
                samples.append(Sample(gauge, (), row[0]))
            return samples

        samples = await self._database.read(work, heavy=True)
        difference = self._clock.difference_seconds if isinstance(self._clock, WatchedClock) else 0.0
        return _as_text((*samples, Sample(CLOCK_DIFFERENCE, (), difference)))


def _as_text(samples: Iterable[Sample]) -> str:
    # Not at the start of the process: see `text`.
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry, gauges = CollectorRegistry(), dict[DatabaseGauge, Gauge]()
    for gauge, labels, value in samples:
        if gauge not in gauges:
            gauges[gauge] = Gauge(gauge.name, gauge.text, gauge.labels, registry=registry)
        (gauges[gauge].labels(*labels) if labels else gauges[gauge]).inc(value)
    return generate_latest(registry).decode()
