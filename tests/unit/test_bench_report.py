"""What the bench makes of its figures: medians, ratios within a round, a table and a chart; and what it measures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest
from bench import chart, report, turns
from bench.kept import Kept
from bench.load import BenchError, Measured
from bench.rows import Plan
from bench.running import lua

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def _made(row: str, connections: int, per_second: float, postgres_us: float | None = None) -> Measured:
    return Measured(row, connections, per_second, 9.87, 31.4, 65.4, 88.8, int(per_second), postgres_us)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """Three rounds on PostgreSQL, the second on a machine that was busy, and one of a single connection on SQLite."""
    figures = Kept(tmp_path / "figures.json", 3, {"CPU": "one", "Date": "2026-01-31"})
    for number, slow in ((1, 1.0), (2, 0.5), (3, 0.9)):
        for row, rate in (("no-op", 40_000), ("create", 12_000), ("Prism: create", 8_000), ("create, logged", 9_000)):
            figures.add(("postgres", row, 128, number), _made(row, 128, rate * slow, 30.2))
    figures.add(("sqlite", "create", 1, 1), _made("create", 1, 1_500))
    return figures


def test_medians_are_over_the_rounds(kept: Kept) -> None:
    """The figure shown is the middle one of three."""
    median = kept.median("postgres", "create", 128)
    assert median is not None
    assert median.per_second == pytest.approx(10_800)
    assert kept.median("postgres", "create", 32) is None
    assert kept.rounds == 3


def test_ratios_are_within_a_round(kept: Kept) -> None:
    """A round in which everything was slow has the same ratio as the others; rounds that lack one are left out."""
    assert kept.ratio("postgres", "create", "Prism: create", 128) == pytest.approx(1.5)
    kept.add(("postgres", "create", 128, 4), _made("create", 128, 1))
    assert kept.ratio("postgres", "create", "Prism: create", 128) == pytest.approx(1.5)
    assert kept.ratio("postgres", "create", "pgbench: create", 128) is None


def test_the_table_has_every_row_and_is_aligned(kept: Kept) -> None:
    """Each row that was measured stands in the table with its ratios; as text its columns are aligned."""
    page = report.markdown(kept)
    (row,) = re.findall(r"^\| create +\| +128 .*$", page, re.MULTILINE)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == ["create", "128", "10,800", "0.30", "1.50x Prism", "9.87", "31.40", "65 / 30", "89"]
    assert re.search(r"^\| create, logged +\| +128 .* 0.75x unlogged ", page, re.MULTILINE)
    table = page[page.index("## PostgreSQL") : page.index("## The machine")].strip().splitlines()[2:]
    assert len(table) == 2 + 4
    assert len({len(line) for line in table}) == 1
    assert "| CPU | one |" in page


def test_the_page_begins_with_ratios_counts_and_what_a_node_carries(kept: Kept) -> None:
    """Ratios to the peers within a round, thousands of instructions, and the latency at half load."""
    for number in (1, 2, 3):
        kept.add(("postgres", report.HALF_LOAD, 128, number), _made(report.HALF_LOAD, 128, 4_000))
    counts = [
        {"database": "sqlite", "operation": "get", "clients": 1, "instructions": 405_123.4, "batch": 0.0},
        {"database": "postgresql", "operation": "create", "clients": 32, "instructions": 1_083_000.0, "batch": 32.0},
    ]
    page = report.markdown(kept, counts)
    assert "| throughput     | 128 connections |" in page
    assert "| create / Prism |            1.50 |" in page
    assert "| operation | SQLite, 1 client | PostgreSQL, 32 clients |" in page
    assert "| get       |             405k |                      - |" in page
    assert "| create    |                - |                 1,083k |" in page
    assert "One process on one, which it shares" in page
    assert "| PostgreSQL |          10,800 |      4,000 |        9.9 |       31.4 |" in page
    assert page.index("## Beside the peers") < page.index("## Requests per second")


def test_sections_without_figures_are_left_out(tmp_path: Path) -> None:
    """A bench of SQLite alone has no ratios to peers, and no instructions are shown that were not counted."""
    figures = Kept(tmp_path / "figures.json", 3)
    figures.add(("sqlite", "create", 1, 1), _made("create", 1, 1_500))
    page = report.markdown(figures, report.counted(tmp_path / "missing.json"))
    assert not any(heading in page for heading in ("## Beside", "## Instructions", "## What one node"))


def test_the_links_of_the_page_lead_somewhere(kept: Kept) -> None:
    """From `docs/`, where it is written, every file that it names exists."""
    links = re.findall(r"\]\(([^)]+)\)", report.markdown(kept))
    files = [link for link in links if not link.startswith(("https://", "#")) and link != report.CHART]
    assert len(files) >= 2
    assert all((DOCS / file.partition("#")[0]).exists() for file in files)


def test_the_summary_has_the_main_figures(kept: Kept) -> None:
    """The rate, the ratio to a peer and the lone request, of what was measured and nothing else."""
    assert list(report.at_a_glance(kept)) == [
        "PostgreSQL, 128 connections, a second: 10,800 creates (p99 31 ms).",
        "PostgreSQL, 128 connections, with a line of log for each: 8,100 creates a second.",
        "PostgreSQL, 128 connections: create is at 1.50 times Prism (7,200 a second).",
        "SQLite, a lone request: creating an order takes 9.87 ms from one connection (median; p99 31.40 ms).",
    ]


def test_the_chart_is_drawn_to_scale(kept: Kept) -> None:
    """It is well-formed, has a bar for each figure of its rows, as tall as the figure is high, and says whose it is."""
    drawing = ET.fromstring(chart.svg(kept))  # noqa: S314 - our own
    bars = {title.text: rect for rect in drawing.iter(f"{SVG}rect") for title in rect.iter(f"{SVG}title")}
    assert set(bars) == {"SQLite: 1,500 a second", "PostgreSQL: 10,800 a second", "Prism: 7,200 a second"}
    height = {name: float(bar.attrib["height"]) for name, bar in bars.items()}
    assert height["PostgreSQL: 10,800 a second"] / height["Prism: 7,200 a second"] == pytest.approx(1.5, rel=0.01)
    texts = {text.text for text in drawing.iter(f"{SVG}text")}
    assert {"Creates a second", "1", "128", "11k", "7.2k", "1.5k"} <= texts
    assert "Gets a second" not in texts


def test_the_chart_reads_on_dark_pages(kept: Kept) -> None:
    """Its text has a colour of its own where dark is preferred, and no background is painted."""
    drawn = chart.svg(kept)
    assert "@media (prefers-color-scheme: dark)" in drawn
    assert '<rect width="100%"' not in drawn


def test_ratios_of_checkouts_are_within_a_pair() -> None:
    """Rates change with the machine's other load, which both runs of a pair and pgbench's have in common."""
    before = [_turn(5_000, 10_000), _turn(1_000, 2_000), _turn(3_000, 6_000)]
    after = [_turn(6_000, 10_000), _turn(1_200, 2_000), _turn(9_000, 15_000)]
    idle = cast("Any", None)
    checkouts = [turns.Checkout("before", idle, before), turns.Checkout("after", idle, after)]
    columns = [list(column.cells) for column in turns.table(checkouts).columns]
    assert columns[0] == ["before", "after", "ratio"]
    assert columns[1] == ["3,000", "6,000", "1.20"]
    assert columns[4] == ["0.50 (0.50-0.50)", "0.60 (0.60-0.60)", "1.20"]


def _turn(creates: float, pgbench: float) -> tuple[Measured, Measured]:
    return _made("create", 128, creates, 30), _made("pgbench: create", 128, pgbench, 30)


@pytest.mark.parametrize(
    ("highest", "top"), [(0.5, 0.6), (950, 1200), (1000, 2000), (10_800, 20_000), (36_000, 40_000)]
)
def test_the_scale_ends_at_a_round_number(highest: float, top: float) -> None:
    """Above the highest bar there is room for its figure."""
    assert chart.nice_top(highest) == pytest.approx(top)


def test_figures_are_stored(kept: Kept) -> None:
    """The file has it all, so an interrupted bench goes on where it was."""
    kept.notes.append("without peers")
    kept.save()
    assert Kept.load(kept.file) == kept
    assert not kept.file.with_suffix(".part").exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"measured": [{}]}'])
def test_another_file_is_refused(content: str, tmp_path: Path) -> None:
    """A file without figures of a bench is named, not half read."""
    file = tmp_path / "other.json"
    file.write_text(content)
    with pytest.raises(BenchError, match=r"other\.json: has no figures"):
        Kept.load(file)
    with pytest.raises(BenchError, match="cannot be read"):
        Kept.load(tmp_path / "missing.json")


def test_what_is_compared_is_measured_in_the_same_round() -> None:
    """A round has each row once under each number of connections, the peers right after their counterpart."""
    steps = [(number, row.name, connections) for number, row, connections in Plan().steps("postgres")]
    assert len(set(steps)) == len(steps) == 3 * (4 * 8 + 3)
    first = [name for number, name, connections in steps if (number, connections) == (1, 128)]
    assert first[3:8] == ["refresh", "oidc-provider: refresh", "create", "Prism: create", "pgbench: create"]
    assert first[8:] == ["get, logged", "create, logged", "create, half load"]
    assert not {"Prism: create", "pgbench: create"} & {row.name for _, row, _ in Plan().steps("sqlite")}


def test_without_peers_pgbench_stays() -> None:
    """It needs nothing that has to be installed."""
    names = {row.name for _, row, _ in Plan(peers=False).steps("postgres")}
    assert "pgbench: create" in names
    assert not {"Prism: create", "oidc-provider: refresh"} & names


def test_terminals_and_families_suffice() -> None:
    """There are more of them than the quickest machine uses up: every create and every family has its own."""
    plan = Plan(connections=(1, 256), seconds=2, runs=5)
    assert plan.terminals("sqlite") > 5 * 2 * (5_000 + 20_000)
    assert plan.terminals("postgres") > 2 * 5 * 2 * (5_000 + 20_000)
    assert plan.families_per_run > 256
    assert plan.refresh_runs == 5 * 2 + 1


def test_the_seed_is_lua() -> None:
    """Objects, arrays, texts and numbers become tables, strings and numbers."""
    assert lua({"a": ['x "y"', 1], "b": {"c": 2.5}}) == '{a={"x \\"y\\"",1},b={c=2.5}}'
