"""The numbers of `core.metrics` in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from paydesk.core.metrics import Counter, Histogram, Metric

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def as_text(metrics: Iterable[Metric]) -> str:
    """Return the page that Prometheus reads."""
    # Not at the start of the process: it takes as long as a hundred requests.
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(metrics))
    return generate_latest(registry).decode()


class _Collector:
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Family]:
        """Yield each metric as the library's, with its samples."""
        return map(_family, self._metrics)


def _family(metric: Metric) -> Family:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    # Lists, because another thread may add a value meanwhile.
    if isinstance(metric, Histogram):
        family = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
        bounds = [*map(str, metric.bounds), "+Inf"]
        for labels, observed in list(metric.values.items()):
            buckets = list(zip(bounds, accumulate(observed.buckets), strict=True))
            family.add_metric(labels, buckets, observed.total)
        return family
    kind = CounterMetricFamily if isinstance(metric, Counter) else GaugeMetricFamily
    numbers = kind(metric.name, metric.text, labels=metric.labels)
    for labels, number in list(metric.values.items()):
        numbers.add_metric(labels, number)
    return numbers
