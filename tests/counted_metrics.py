"""The numbers of `/metrics` in this process: what has been added since a moment."""

from __future__ import annotations

from collections.abc import Iterator

from paydesk.core.metrics import Histogram, all_declared

DIGITS = 6
"""Sums of seconds are rounded: what was counted before in this process decides about their last digits."""
Sample = tuple[str, tuple[tuple[str, str], ...]]


def samples() -> dict[Sample, float]:
    """Return every sample of the page by its name and labels, but those of buckets."""
    return dict(_samples())


def _samples() -> Iterator[tuple[Sample, float]]:
    for metric in all_declared():
        for values, number in list(metric.values.items()):
            labels = tuple(zip(metric.labels, values, strict=True))
            if isinstance(metric, Histogram):
                yield (f"{metric.name}_count", labels), sum(metric.values[values].buckets)
                yield (f"{metric.name}_sum", labels), metric.values[values].total
            else:
                yield (metric.name, labels), float(number)  # type: ignore[arg-type]  # only a histogram has others


class Added:
    """What has been added since it was made."""

    def __init__(self) -> None:
        self._before = samples()

    def __call__(self, name: str, **labels: str) -> float:
        """Return the sum over the samples of that name with these labels among theirs."""
        return round(sum(value for its, value in self._added(name) if labels.items() <= dict(its).items()), DIGITS)

    def by(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Return what has been added, by the values of these labels, without zeros."""
        found: dict[tuple[str, ...], float] = {}
        for its, value in self._added(name):
            key = tuple(dict(its)[label] for label in labels)
            found[key] = found.get(key, 0) + value
        return {key: round(value, DIGITS) for key, value in found.items() if round(value, DIGITS)}

    def _added(self, name: str) -> Iterator[tuple[tuple[tuple[str, str], ...], float]]:
        for (one, its), value in _samples():
            if one == name:
                yield its, value - self._before.get((one, its), 0)
