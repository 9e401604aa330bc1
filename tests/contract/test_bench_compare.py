"""The comparison with another checkout: the run is the same each time, and what differs is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.compare import ROOT, first_difference, play, summary


def _statuses(file: Path, url: str) -> list[int]:
    """Play 60 requests; return the statuses of the answers."""
    play(ROOT, url, 60, file)
    return [line["status"] for line in map(json.loads, file.read_text().splitlines()) if "status" in line]


def test_a_run_is_the_same_each_time(tmp_path: Path) -> None:
    """All answers are equal, with all ids and tokens in them; none is an internal error."""
    one, two = (tmp_path / name for name in ("one", "two"))
    statuses = _statuses(one, f"sqlite:{one}.db")
    assert _statuses(two, f"sqlite:{two}.db") == statuses
    assert first_difference(one, two) == ""
    assert len(statuses) >= 60
    assert {200, 201, 409} <= {*statuses} <= {*range(500)}


@pytest.mark.slow
def test_a_run_has_the_same_statuses_on_postgres(postgres_url: str, tmp_path: Path) -> None:
    """The requests and their refusals are those of a run on SQLite."""
    assert _statuses(tmp_path / "one", postgres_url) == _statuses(tmp_path / "two", f"sqlite:{tmp_path}/two.db")


def test_the_first_difference_is_shown(tmp_path: Path) -> None:
    """In an answer by its fields, and also if one run has more lines."""
    one, other = tmp_path / "one", tmp_path / "other"
    same = json.dumps({"status": 200, "answer": "{}"})
    one.write_text(f"{same}\n" + json.dumps({"status": 200, "answer": '{"id": "1", "amount": "2"}'}) + "\n")
    other.write_text(f"{same}\n" + json.dumps({"status": 200, "answer": '{"id": "1", "amount": "3"}'}) + "\n")
    shown = first_difference(one, other)
    assert "line 2 differs." in shown
    assert '-  "amount": "2"\n+  "amount": "3"' in shown
    other.write_text(f"{same}\n")
    assert '-  "amount": "2"' in first_difference(one, other)
    assert first_difference(one, one) == ""


def test_the_summary_counts_answers_and_rows(tmp_path: Path) -> None:
    """Answers by status, rows by table."""
    lines = ({"status": 201}, {"status": 201}, {"status": 409}, {"table": "orders", "row": {}})
    (tmp_path / "run").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert summary(tmp_path / "run") == "3 answers are equal: 2 x 201 1 x 409 \n1 rows are equal: 1 orders"
