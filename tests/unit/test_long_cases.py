"""The limit on how long a case may take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import long_cases

CASES = """
import pytest, threading
import long_cases

long_cases.SECONDS_MAX = 0.001

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


def test_only_marked_cases_may_take_long(tmp_path: Path) -> None:
    """The others fail, with what to do."""
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    long(reason)\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "long_cases", "-p", "no:cacheprovider", tmp_path],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(long_cases.__file__).parent),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "mark it as `slow`" in done.stdout


@pytest.mark.parametrize(
    ("load", "workers", "expected"), [(0.1, 1, 1), (0.1, 4, 2), (9.0, 4, 4.5)], ids=["idle", "just begun", "busy"]
)
def test_limit_grows_with_the_processes_that_want_to_run(load: float, workers: int, expected: float) -> None:
    """A busy machine lets no case fail."""
    assert long_cases.slowdown(load, workers, cores=2) == expected
