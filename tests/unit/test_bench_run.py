"""The bench from end to end, small: it seeds, loads, measures, and writes its page and its chart."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from bench.__main__ import main
from bench.kept import Kept
from bench.load import Measured

from conftest import skip_unless_ci

ROOT = Path(__file__).parents[2]
SMALL = ("--seconds", "1", "--runs", "1", "--connections", "4", "--terminals", "30000", "--no-peers")


@pytest.fixture
def wrk() -> None:
    """The generator of load, which `make test` installs where it can."""
    if shutil.which("wrk") is None:
        skip_unless_ci("wrk is missing. Debian, Ubuntu: apt-get install wrk    macOS: brew install wrk")


def _bench(*arguments: str, module: str = "bench", **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    variables = {**os.environ, **environment}
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=150)


@pytest.mark.slow
@pytest.mark.usefixtures("wrk")
def test_it_measures_and_writes_its_page(tmp_path: Path) -> None:
    """On SQLite every row asked for is measured and stands in the page and the table; resumed, none is again."""
    file = tmp_path / "figures.json"
    operations = ("--databases", "sqlite", "--operations", "noop", "refresh", "create", "logged")
    given = (*operations, *SMALL, "--json", str(file), "--docs", str(tmp_path))
    ran = _bench(*given)
    assert ran.returncode == 0, ran.stderr
    rows = {"no-op", "refresh", "create", "get, logged", "create, logged"}
    kept = Kept.load(file)
    assert {key[:3] for key in kept.measured} == {("sqlite", row, 4) for row in rows}
    assert all(made.per_second > 0 and made.cpu_us is not None for made in kept.measured.values())
    page = (tmp_path / "benchmarks.md").read_text()
    assert all(f"| {row}" in page for row in rows)
    assert ET.parse(tmp_path / "benchmarks.svg").getroot().tag.endswith("svg")  # noqa: S314 - our own
    assert "create, logged" in ran.stdout
    before = file.read_bytes()
    again = _bench(*given, "--resume")
    assert again.returncode == 0, again.stderr
    assert file.read_bytes() == before


@pytest.mark.slow
@pytest.mark.usefixtures("wrk")
def test_pgbench_is_compared_with_postgres(tmp_path: Path) -> None:
    """The transaction that pgbench is given fits the schema; it and the service are seen to spend PostgreSQL's time."""
    file = tmp_path / "figures.json"
    # In memory pgbench uses up more than 10,000 terminals a second.
    enough = (*SMALL, "--terminals", "120000")
    ran = _bench("--databases", "postgres", "--operations", "create", *enough, "--json", str(file))
    assert ran.returncode == 0, ran.stderr
    kept = Kept.load(file)
    assert {key[1] for key in kept.measured} == {"create", "pgbench: create"}, ran.stdout
    assert all(made.postgres_us is not None for made in kept.measured.values())
    assert kept.ratio("postgres", "create", "pgbench: create", 4)


@pytest.mark.slow
@pytest.mark.usefixtures("wrk")
def test_two_checkouts_are_measured_in_turns() -> None:
    """Each of them, here one and the same, is measured with pgbench in every pair."""
    small = ("--pairs", "1", "--seconds", "1", "--connections", "4", "--terminals", "60000")
    ran = _bench("--against", str(ROOT), *small, module="bench.turns", COLUMNS="200")
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"ratio +│ [\d.]+ +│ [\d.]+ / [\d.]+ +│ [\d.]+ / [\d.]+ +│ [\d.]+ ", ran.stdout), ran.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("wrk")
def test_too_few_terminals_are_reported(tmp_path: Path) -> None:
    """A create without a free terminal would be a refusal: the bench ends, says so and what to do."""
    given = ("--seconds", "1", "--runs", "1", "--connections", "4", "--terminals", "1100", "--no-peers")
    file = tmp_path / "figures.json"
    ran = _bench("--databases", "sqlite", "--operations", "create", *given, "--json", str(file))
    assert ran.returncode == 1
    assert "The free terminals are used up: seed more, --terminals N." in ran.stderr
    assert not file.exists()


def _refused(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Return why the bench does not start, in this process."""
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    with pytest.raises(SystemExit) as refused:
        main()
    return str(refused.value)


def test_without_wrk_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started where the load can't be made."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install wrk" in _refused(monkeypatch, "--json", str(tmp_path / "figures.json"))


@pytest.mark.usefixtures("wrk")
def test_figures_of_other_run_times_are_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of other lengths don't belong into one table."""
    file = tmp_path / "figures.json"
    file.write_text(json.dumps({"seconds": 7, "machine": {}, "notes": [], "measured": []}))
    assert "--seconds 7" in _refused(monkeypatch, "--json", str(file), "--resume")


@pytest.mark.usefixtures("wrk")
def test_figures_of_another_version_are_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do runs of another commit."""
    file = tmp_path / "figures.json"
    figures = dataclasses.asdict(Measured("get", 1, 100.0, 1.0, 2.0, 3.0, 4.0, 5))
    run = {"database": "sqlite", "row": "get", "connections": 1, "round": 1, "figures": figures}
    machine = {"Paydesk": "0.1, commit 0123456"}
    file.write_text(json.dumps({"seconds": 3, "machine": machine, "notes": [], "measured": [run]}))
    refused = _refused(monkeypatch, "--json", str(file), "--resume")
    assert "was measured with Paydesk 0.1, commit 0123456" in refused


@pytest.mark.slow
@pytest.mark.usefixtures("wrk")
def test_a_request_costs_about_the_same_with_many_orders() -> None:
    """With twenty times the orders a request does not take three times the CPU time."""
    ran = _bench("--orders", "20000", "--runs", "1", "--seconds", "1", module="bench.growth", COLUMNS="200")
    assert ran.returncode == 0, ran.stderr
    ratios = [float(number) for number in re.findall(r"ratio │ +([\d.]+)", ran.stdout)]
    assert len(ratios) == 3, ran.stdout
    assert max(ratios) < 3, ran.stdout
