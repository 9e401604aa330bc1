"""A page of `/metrics`, read as strictly as Prometheus and `promtool check metrics` read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from prometheus_client.parser import text_string_to_metric_families

SUFFIXES = re.compile(r"_(bucket|count|sum)$")


@dataclass(frozen=True, slots=True)
class Page:
    """The samples of a page, by name and labels."""

    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples that have these labels."""
        return sum(
            value
            for (sample, found), value in self.samples.items()
            if sample == name and labels.items() <= dict(found).items()
        )

    @property
    def processes(self) -> set[str | None]:
        """Return the values of the label `process`, without the numbers of processes; None for samples without it."""
        return {
            dict(labels).get("process") for name, labels in self.samples if not name.startswith("paydesk_processes")
        }


def page_of(text: str) -> Page:
    """Return the page. Fails unless each metric has one HELP and TYPE, its samples follow, and none is there twice."""
    assert text.endswith("\n")
    lines = text.splitlines()
    types = {line.split(" ")[2]: line.split(" ")[3] for line in lines if line.startswith("# TYPE ")}

    def metric_of(line: str) -> str:
        name = line.split(" ")[2] if line.startswith("#") else re.split(r"[{ ]", line, maxsplit=1)[0]
        is_histogram = types.get(SUFFIXES.sub("", name)) == "histogram"
        return SUFFIXES.sub("", name) if is_histogram else name

    blocks = [(name, list(block)) for name, block in groupby(lines, metric_of)]
    assert len(blocks) == len(dict(blocks)) == len(types), "a metric is not in one place"
    for name, block in blocks:
        assert block[0].startswith(f"# HELP {name} "), block[0]
        assert block[1] == f"# TYPE {name} {types[name]}", block[1]
        assert not any(line.startswith("#") for line in block[2:]), block
    found = [
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    assert len(found) == len(dict(found)), "a sample is there twice"
    return Page(dict(found))
