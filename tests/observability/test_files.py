"""The alerts, the dashboard and the examples: whole, readable for Prometheus, about metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from every_operation import API
from observability.files import (
    ADDED,
    ALERTS,
    FILES,
    OF_PROMETHEUS,
    ROOT,
    declared,
    filled,
    grouped_by,
    metrics_in,
    panels,
    program,
    queries,
    rules,
)
from tables import each

PANELS_MAX = 24
RUNBOOKS = ROOT / "docs" / "runbooks.md"
PARTS = ("**Meaning.**", "**Look at**", "**Do.**", "**Do not**")


def _run(*arguments: str | Path) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@each("query", list(queries()), ids=lambda query: query[0])
def test_queries_ask_for_what_is_declared(query: tuple[str, str]) -> None:
    """Each is parsed, its metrics exist, and have the labels by which it selects and groups."""
    known = {**declared(), **OF_PROMETHEUS}
    named = metrics_in(query[1])
    assert named
    assert named.keys() - known.keys() == set()
    labels = {label for name in named for label in known.get(name, ())} | ADDED
    assert grouped_by(query[1]) - labels == set()
    for name in named:
        assert named[name] - {*known[name]} - ADDED == set()


@each("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    """How urgent it is, what it means, and where its runbook is, which has all parts and stands in the overview."""
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert re.fullmatch(r"\d+m", rule["for"])
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook"}
    assert notes["description"].endswith(".")
    name = rule["alert"]
    assert notes["runbook"] == f"docs/runbooks.md#{name.lower()}"
    page = RUNBOOKS.read_text()
    assert f"| [{name}](#{name.lower()}) | {rule['labels']['severity']} |" in page
    (section,) = re.findall(rf"^## {name}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert [part for part in PARTS if part not in section] == []


def test_every_runbook_has_an_alert() -> None:
    """No section is left over, and none is there twice."""
    assert sorted(re.findall(r"(?m)^## (.+)$", RUNBOOKS.read_text())) == sorted(rule["alert"] for rule in rules())


def test_panels_are_explained() -> None:
    """Each has a title of its own, a unit, a description, and asks for the chosen services."""
    shown = panels()
    assert 0 < len(shown) <= PANELS_MAX
    assert len({panel["title"] for panel in shown}) == len(shown)
    for panel in shown:
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        for target in panel["targets"]:
            selectors = re.findall(r"\{(.*?)\}", target["expr"])
            assert selectors, panel["title"]
            assert all('service=~"$service"' in selector for selector in selectors), panel["title"]
            assert filled(target["expr"]).count("$") == 0, panel["title"]


def test_panels_do_not_overlap() -> None:
    """Each cell of the grid has one panel or row at most."""
    board = json.loads((FILES / "dashboard.json").read_text())
    places = [panel["gridPos"] for panel in board["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in board["panels"]}) == len(places)


def test_prometheus_reads_every_page_of_every_node() -> None:
    """The example has the nodes of the Compose file, and the paths of the API."""
    jobs = yaml.safe_load((FILES / "prometheus.yml").read_text())["scrape_configs"]
    paths = {job["metrics_path"] for job in jobs}
    assert {operation.path for operation in API.operations if operation.surface == "metrics"} <= paths
    services = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text())["services"]
    nodes = [services[name]["networks"]["inside"]["ipv4_address"] for name in ("paydesk-1", "paydesk-2")]
    for job in jobs:
        (targets,) = job["static_configs"]
        assert targets["targets"] == [f"{node}:8378" for node in nodes]


def test_tools_of_prometheus_accept_the_files(tmp_path: Path) -> None:
    """`promtool` the alerts and the configuration, `amtool` that of Alertmanager."""
    for file in FILES.glob("*.yml"):
        shutil.copy(file, tmp_path)
    _run(program("promtool"), "check", "rules", ALERTS)
    _run(program("promtool"), "check", "config", "--syntax-only", tmp_path / "prometheus.yml")
    _run(program("amtool"), "check-config", tmp_path / "alertmanager.yml")


def test_alerts_fire_when_they_should() -> None:
    """And not otherwise: `alerts.test.yml` has the series."""
    cases = Path(__file__).with_name("alerts.test.yml")
    _run(program("promtool"), "test", "rules", cases)
    tested = cases.read_text()
    assert [rule["alert"] for rule in rules() if f'alertname="{rule["alert"]}"' not in tested] == []


@pytest.mark.parametrize(
    ("name", "expected"), [("DeliveriesStuck", "critical"), ("Down", "critical"), ("Clock", "warning")]
)
def test_alertmanager_routes_by_severity(name: str, expected: str) -> None:
    """A critical alert goes to the pager, any other one to the team."""
    config = FILES / "alertmanager.yml"
    labels = (f"alertname={name}", f"severity={expected}")
    receiver = _run(program("amtool"), "config", "routes", "test", f"--config.file={config}", *labels).strip()
    assert receiver == {"critical": "pager", "warning": "team"}[expected]
