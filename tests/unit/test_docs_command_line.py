"""The commands of docs/command-line.md, run unchanged in a folder in which `paydesk dev` runs."""

from __future__ import annotations

import re
from pathlib import Path

import dev_thread
from command_line import paydesk_on_path
from docs_programs import DOCS, blocks, run
from paydesk.commands import cli
from paydesk.engine.payments.simulator.schemas import SIMULATED_DETAILS

PAGE = (DOCS / "command-line.md").read_text()


def test_commands(tmp_path: Path) -> None:
    """A payment, its refund, two cancels, two simulations and a repeated request."""
    with dev_thread.dev(tmp_path), paydesk_on_path(tmp_path) as path:
        output = run(tmp_path, "".join(blocks(PAGE, "sh")), "sh", "-eu", PATH=path)
    assert re.search(r"^ORD[0-9A-Z]{26}  24\.90 BRL$", output, re.MULTILINE)
    assert re.search(r"processed    paid$", output, re.MULTILINE)
    refunds = re.findall(r"^amount +(\d+\.\d\d)$", output, re.MULTILINE)
    assert refunds == ["4.90", "20.00"]
    assert len(re.findall(r"^ORD[0-9A-Z]{26} is canceled\.$", output, re.MULTILINE)) == 2
    details = re.findall(r"^payment status_detail +(\w+)$", output, re.MULTILINE)
    assert details == ["accredited", "insufficient_amount"]
    assert output.endswith("One order.\n")


def test_every_command_and_status_is_described() -> None:
    """All verbs of `orders` but the operators' `resolve`, and every status that can be simulated."""
    for verb in set(cli.tree().commands["orders"].commands) - {"resolve"}:
        assert re.search(rf"`(paydesk orders )?{verb}\b", PAGE), verb
    assert all(f"`{status}`" in PAGE for status in SIMULATED_DETAILS)
