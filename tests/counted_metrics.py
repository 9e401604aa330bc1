"""The numbers of `/metrics` in this process: what has been added since a moment."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from paydesk.core.metrics import all_declared
from paydesk.platform.metrics.text import as_text

Sample = tuple[str, frozenset[tuple[str, str]]]


def samples() -> dict[Sample, float]:
    """Return every sample of the page by its name and labels."""
    families = text_string_to_metric_families(as_text(all_declared()))
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


class Added:
    """What has been added since it was made."""

    def __init__(self) -> None:
        self._before = samples()

    def __call__(self, name: str, **labels: str) -> float:
        """Return the sum over the samples of that name with these labels among theirs."""
        chosen = frozenset(labels.items())
        return sum(
            value - self._before.get((one, its), 0)
            for (one, its), value in samples().items()
            if one == name and chosen <= its
        )

    def by(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Return what has been added, by the values of these labels, without zeros."""
        found: dict[tuple[str, ...], float] = {}
        for one, its in samples():
            if one == name:
                values = dict(its)
                key = tuple(values[label] for label in labels)
                found[key] = self(name, **dict(zip(labels, key, strict=True)))
        return {key: value for key, value in found.items() if value}
