"""The program whose instructions are counted makes each kind of request, and fails when an answer isn't as expected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench.instructions import OPERATIONS, ROOT

from conftest import first_and_others


@pytest.mark.parametrize("operation", first_and_others(*OPERATIONS))
def test_the_counted_program_makes_the_requests_of_every_operation(operation: str, tmp_path: Path) -> None:
    """It exits with 0: every answer had the status that was expected."""
    finished = _inside(operation, tmp_path)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.slow
def test_the_counted_program_fails_on_an_operation_that_it_does_not_know(tmp_path: Path) -> None:
    """It does not exit with 0, so that its instructions are not counted."""
    assert _inside("unknown", tmp_path).returncode != 0


def _inside(operation: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.instructions", "--inside", operation, "2", f"sqlite:{folder}/bench.db"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
