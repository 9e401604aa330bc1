"""The program whose instructions are counted makes each kind of request, and fails when an answer isn't as expected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench.counted import OPERATIONS
from bench.instructions import ROOT

from conftest import first_and_others

WRITES = {"create": 2.0, "refresh": 2.0}
"""Mean number of writes in a batch, of operations that write."""


@pytest.mark.parametrize("operation", first_and_others(*(one for one in OPERATIONS if one != "create-notified")))
def test_the_counted_program_makes_the_requests_of_every_operation(operation: str, tmp_path: Path) -> None:
    """It exits with 0: every answer had the status that was expected. Both clients' writes share a commit."""
    finished = _counted(operation, f"sqlite:{tmp_path}/bench.db")
    assert finished.returncode == 0, finished.stderr
    assert float(finished.stdout) == WRITES.get(OPERATIONS[operation], 0)


@pytest.mark.on_postgres
@pytest.mark.parametrize("operation", first_and_others("create-notified", "create", "refresh"))
def test_writes_of_clients_that_send_together_share_a_batch(operation: str, postgres_url: str) -> None:
    """On PostgreSQL too, with another node to be notified and without."""
    finished = _counted(operation, postgres_url)
    assert finished.returncode == 0, finished.stderr
    assert float(finished.stdout) == WRITES[OPERATIONS[operation]]


@pytest.mark.slow
def test_the_counted_program_fails_on_an_operation_that_it_does_not_know(tmp_path: Path) -> None:
    """It does not exit with 0, so that its instructions are not counted."""
    assert _counted("unknown", f"sqlite:{tmp_path}/bench.db").returncode != 0


def _counted(operation: str, database_url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.counted", operation, "2", "3", database_url]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
