"""The commands of docs/command-line.md, run unchanged in a folder in which `paydesk dev` runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import dev_thread
from command_line import paydesk_on_path
from paydesk import cli
from paydesk.sandbox.schemas import SIMULATED_DETAILS
from paydesk_process import environment

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
SECONDS_MAX = 120


def test_commands(tmp_path: Path) -> None:
    """A payment, its refund, two cancels, two simulations and a repeated request."""
    program = "".join(re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    with dev_thread.dev(tmp_path), paydesk_on_path(tmp_path) as path:
        done = subprocess.run(
            ["sh", "-eu"],
            cwd=tmp_path,
            env=environment(PATH=path),
            input=program,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ORD[0-9A-Z]{26}  24\.90 BRL$", done.stdout, re.MULTILINE)
    assert re.search(r"processed    paid$", done.stdout, re.MULTILINE)
    refunds = re.findall(r"^amount +(\d+\.\d\d)$", done.stdout, re.MULTILINE)
    assert refunds == ["4.90", "20.00"]
    assert len(re.findall(r"^ORD[0-9A-Z]{26} is canceled\.$", done.stdout, re.MULTILINE)) == 2
    details = re.findall(r"^payment status_detail +(\w+)$", done.stdout, re.MULTILINE)
    assert details == ["accredited", "insufficient_amount"]
    assert done.stdout.endswith("One order.\n")


def test_every_command_and_status_is_described() -> None:
    """All verbs of `orders` but the operators' `resolve`, and every status that can be simulated."""
    text = PAGE.read_text()
    for verb in set(cli.tree().commands["orders"].commands) - {"resolve"}:
        assert re.search(rf"`(paydesk orders )?{verb}\b", text), verb
    assert all(f"`{status}`" in text for status in SIMULATED_DETAILS)
