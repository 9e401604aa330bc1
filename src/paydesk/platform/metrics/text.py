"""The numbers of `core.metrics` in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from paydesk.core.metrics import Counter, Histogram, Metric

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def as_text(metrics: Iterable[Metric], process: str = "") -> str:
    """Return the page that Prometheus reads. With `process` each sample has it as a label."""
    # Not at the start of the process: it takes as long as a hundred requests.
    from prometheus_client import generate_latest

    return generate_latest(_Collector(metrics, {"process": process} if process else {})).decode()


def joined(pages: Iterable[str]) -> str:
    """Return one page of several: all samples of a metric together, below its text and type in the first page."""
    lines: dict[str, list[str]] = {}
    for page in pages:
        for block in f"\n{page}".rstrip("\n").split("\n# HELP ")[1:]:
            text, kind, *samples = block.split("\n")
            lines.setdefault(text.partition(" ")[0], [f"# HELP {text}", kind]).extend(samples)
    return "".join(f"{line}\n" for line in chain.from_iterable(lines.values()))


class _Collector:
    def __init__(self, metrics: Iterable[Metric], further: Mapping[str, str]) -> None:
        self._metrics, self._further = metrics, further

    def collect(self) -> Iterator[Family]:
        """Yield each metric as the library's, with its samples."""
        return (_family(metric, self._further) for metric in self._metrics)


def _family(metric: Metric, further: Mapping[str, str]) -> Family:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    names, further_values = (*metric.labels, *further), tuple(further.values())
    # Lists, because another thread may add a value meanwhile.
    if isinstance(metric, Histogram):
        family = HistogramMetricFamily(metric.name, metric.text, labels=names)
        bounds = [*map(str, metric.bounds), "+Inf"]
        for labels, observed in list(metric.values.items()):
            buckets = list(zip(bounds, accumulate(observed.buckets), strict=True))
            family.add_metric((*labels, *further_values), buckets, observed.total)
        return family
    kind = CounterMetricFamily if isinstance(metric, Counter) else GaugeMetricFamily
    numbers = kind(metric.name, metric.text, labels=names)
    for labels, number in list(metric.values.items()):
        numbers.add_metric((*labels, *further_values), number)
    return numbers
