"""Numbers about what the process does, which `/metrics` shows. To add to one costs a fraction of a microsecond.

A module declares its own at its top, as constants. They are plain integers and floats of the process, for the event
loop's thread alone; `platform/metrics` reads them when they are asked for. No label has an id: the number of their
values is bounded, and the console answers which one it was.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The upper bounds of durations: from a read of the database to the longest poll."""

Labels = tuple[str, ...]


class Counter:
    """A number of events by the values of labels, which only rises."""

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self.name, self.text, self.labels = name, text, labels
        self.values: dict[Labels, int] = {} if labels else {(): 0}
        DECLARED.append(self)

    def add(self, *labels: str, count: int = 1) -> None:
        """Add events with these values of the labels."""
        self.values[labels] = self.values.get(labels, 0) + count


class Observed:
    """The observations of one combination of labels: how many are in each bucket, and their sum."""

    __slots__ = ("_bounds", "buckets", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self.buckets, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        """Add an observation."""
        # Most are in the first one, and a search costs more than the rest.
        self.buckets[0 if value <= self._bounds[0] else bisect_left(self._bounds, value)] += 1
        self.total += value


class Histogram:
    """A distribution of observations by the values of labels. A caller that observes often keeps what `of` returns."""

    def __init__(self, name: str, text: str, *labels: str, bounds: tuple[float, ...] = SECONDS) -> None:
        self.name, self.text, self.labels, self.bounds = name, text, labels, bounds
        self.values: dict[Labels, Observed] = {} if labels else {(): Observed(bounds)}
        DECLARED.append(self)

    def of(self, *labels: str) -> Observed:
        """Return the observations with these values of the labels."""
        found = self.values.get(labels)
        return found if found is not None else self.values.setdefault(labels, Observed(self.bounds))


Source = Callable[[], Mapping[Labels, float]]


class Gauge:
    """A present state by the values of labels. What it is about, such as a listener, is asked when it is read."""

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self.name, self.text, self.labels = name, text, labels
        self._sources = list[Source]()
        DECLARED.append(self)

    @contextmanager
    def including(self, source: Source) -> Iterator[None]:
        """Add the numbers of `source` until the end of the block."""
        self._sources.append(source)
        try:
            yield
        finally:
            self._sources.remove(source)

    @property
    def values(self) -> Mapping[Labels, float]:
        """Return the present numbers."""
        found: dict[Labels, float] = {}
        for source in self._sources:
            for labels, number in source().items():
                found[labels] = found.get(labels, 0) + number
        return found


Metric = Counter | Histogram | Gauge
DECLARED: list[Metric] = []
"""All that modules have declared."""


def all_declared() -> Iterable[Metric]:
    """Return what is declared, by name."""
    return sorted(DECLARED, key=lambda one: one.name)
