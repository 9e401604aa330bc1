"""The programs of "Events", run as they stand against `paydesk dev`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paydesk.sandbox.schemas import SIMULATED_DETAILS
from paydesk_process import dev

PAGE = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
PROGRAM_SECONDS_MAX = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which `paydesk dev` runs, as a reader's clone is after `make run`."""
    folder = tmp_path_factory.mktemp("clone")
    with dev(folder):
        yield folder


def _said(folder: Path, language: str, *command: str) -> str:
    """What the page's programs in that language say, run one after the other."""
    program = "".join(re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    done = subprocess.run(
        command, cwd=folder, input=program, capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_with_curl(folder: Path) -> None:
    """The order failed for the reason that was asked for; behind the last event there is none."""
    said = _said(folder, "sh", "sh", "-eu")
    assert '"status":"failed","status_detail":"insufficient_amount"' in said
    assert re.search(r'\{"data":\[\],"next":"[\w-]+"\}$', said)


def test_with_python(folder: Path) -> None:
    """It hears of every move of its order, in order."""
    assert _said(folder, "python", sys.executable, "-").splitlines() == [
        "1 order.created created",
        "2 order.at_terminal at_terminal",
        "3 order.processed processed",
        "4 order.refunded refunded",
    ]


def test_every_status_is_in_the_table() -> None:
    """With what becomes of it."""
    assert all(f"\n| `{status}` |" in PAGE for status in SIMULATED_DETAILS)
