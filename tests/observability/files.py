"""What the files of `deploy/observability` ask Prometheus, and what the service declares."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import promql_parser
import yaml

from conftest import skip_unless_ci
from paydesk.core.metrics import Histogram, all_declared

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "observability"
ALERTS = FILES / "alerts.yml"
PROGRAMS = ROOT / ".venv" / "observability" / "usr" / "bin"
"""Where `scripts/programs` unpacks Debian's packages, without installing them: that would start them."""

OF_PROMETHEUS: Mapping[str, tuple[str, ...]] = {"up": ()}
ADDED = {"service", "instance", "job", "process"}
"""The labels that the scrape adds, or the node if it has several processes."""


def program(name: str) -> str:
    """Return the path of a program of Prometheus or Alertmanager."""
    found = shutil.which(name, path=os.pathsep.join((str(PROGRAMS), os.environ["PATH"])))
    return found or skip_unless_ci(f"{name} is missing: scripts/programs unpacks it on Debian.")


def rules() -> list[dict[str, Any]]:
    """Return the alerts."""
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard without its rows."""
    return [panel for panel in json.loads((FILES / "dashboard.json").read_text())["panels"] if panel["type"] != "row"]


def filled(query: str) -> str:
    """Return a query of the dashboard with its variables filled in, as Grafana does."""
    return query.replace("$__rate_interval", "1m").replace("$service", ".*")


def queries() -> Iterator[tuple[str, str]]:
    """Return each query of the alerts and of the dashboard, with the name of its alert or panel."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], filled(target["expr"])


def metrics_in(query: str) -> dict[str, set[str]]:
    """Return the metrics that a query names, each with the labels by which it is selected. Raises `ValueError`."""
    found = dict[str, set[str]]()

    def visit(part: promql_parser.Expr) -> None:
        if isinstance(part, promql_parser.VectorSelector):
            assert part.name is not None
            found.setdefault(part.name, set()).update(matcher.name for matcher in part.matchers.matchers)

    promql_parser.walk(promql_parser.parse(query), visit)
    return found


def grouped_by(query: str) -> set[str]:
    """Return all labels by which the query groups."""
    return {label for labels in re.findall(r"\bby \(([^)]*)\)", query) for label in re.findall(r"\w+", labels)}


def declared() -> Mapping[str, tuple[str, ...]]:
    """Return the series that the service can show, with their labels: of the process, and of the database."""
    importlib.import_module("paydesk.service.serve")
    found: dict[str, tuple[str, ...]] = {}
    for metric in all_declared():
        if isinstance(metric, Histogram):
            found |= {f"{metric.name}_{suffix}": metric.labels for suffix in ("sum", "count")}
            found[f"{metric.name}_bucket"] = (*metric.labels, "le")
        else:
            found[metric.name] = metric.labels
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("paydesk.")]
    for value in [value for module in modules for value in vars(module).values()]:
        if type(value).__name__ == "DatabaseGauge":
            found[value.name] = value.labels
    return found
