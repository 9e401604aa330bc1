"""The comparison with another checkout: the run is the same each time, and what differs is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.compare import ROOT, first_difference, play, summary


@pytest.mark.on_postgres
def test_a_run_is_the_same_each_time(postgres_url: str, tmp_path: Path) -> None:
    """All answers are equal on each database, with all ids and tokens in them; none is an internal error."""
    urls = (f"sqlite:{tmp_path}/one.db", f"sqlite:{tmp_path}/two.db", postgres_url)
    answers = []
    for number, url in enumerate(urls):
        play(ROOT, url, 60, tmp_path / f"{number}.jsonl")
        lines = map(json.loads, (tmp_path / f"{number}.jsonl").read_text().splitlines())
        answers.append([line for line in lines if "status" in line])
    assert first_difference(tmp_path / "0.jsonl", tmp_path / "1.jsonl") == ""
    assert len(answers[0]) == len(answers[2]) >= 60
    assert {answer["status"] for answer in answers[0]} >= {200, 201, 409}
    assert all(answer["status"] < 500 for each in answers for answer in each)


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
