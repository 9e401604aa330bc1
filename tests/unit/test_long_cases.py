"""The limit on how long a case may take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import long_cases
from long_cases import Ran, idle_seconds

CASES = """
import pytest, threading
import long_cases

long_cases.SECONDS_MAX = 0.005

def wait():
    threading.Event().wait(0.5)

def test_long():
    wait()

@pytest.mark.slow
def test_slow():
    wait()

@pytest.mark.long("a reason")
def test_marked():
    wait()
"""


@pytest.mark.skipif(long_cases.ran() is None, reason="This system does not tell how long a thread waits for a core.")
def test_only_marked_cases_may_take_long(tmp_path: Path) -> None:
    """The others fail, with what to do."""
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    long(reason)\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "long_cases", "-p", "no:cacheprovider", tmp_path],
        env={**os.environ, "PYTHONPATH": str(Path(long_cases.__file__).parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "mark it as `slow`" in done.stdout


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Ran(10.0, 0.0), Ran(11.0, 0.0), 6.0),
        (Ran(10.0, 10.0), Ran(11.0, 11.0), 3.0),
        (Ran(10.0, 0.0), Ran(11.0, 2.0), 2.0),
        (Ran(10.0, 0.0), Ran(10.1, 2.0), 5.0),
    ],
    ids=["idle", "busy all the time", "busy during the case", "a case that hardly ran"],
)
def test_waits_for_a_core_do_not_count(before: Ran, after: Ran, expected: float) -> None:
    """Neither those of the case nor those of the run so far."""
    assert idle_seconds(6.0, before, after) == pytest.approx(expected, rel=0.01)
