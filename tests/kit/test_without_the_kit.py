"""The tests of what one operates pass where the development kit is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = ("cli_serve*", "cli_production", "health*", "orders*", "oauth*", "device*", "pages*", "accounts*")


@pytest.mark.slow
@pytest.mark.long("it runs hundreds of tests")
def test_the_tests_of_what_one_operates_pass(tmp_path: Path) -> None:
    """Those of `serve`, orders, tokens, terminals and pages, in processes that cannot import the kit."""
    (tmp_path / "sitecustomize.py").write_text('import sys; sys.modules["paydesk_dev"] = None')
    files = sorted(file for name in FILES for file in (TESTS / "contract").glob(f"test_{name}.py"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--numprocesses", "2", "-m", "not slow", *map(str, files)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
