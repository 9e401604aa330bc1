"""The programs of "Events", run unchanged against `paydesk dev`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import docs_programs
from paydesk.engine.payments.simulator.schemas import SIMULATED_DETAILS

PAGE = (docs_programs.DOCS / "events.md").read_text()


EXAMPLES = docs_programs.DOCS.parent / "examples"


def test_curl_programs(folder: Path) -> None:
    """The order fails with the requested detail, a page has its events, and there is none after the last one."""
    output = docs_programs.run(folder, "".join(docs_programs.blocks(PAGE, "sh")), "sh", "-eu")
    assert '"status":"failed","status_detail":"insufficient_amount"' in output
    events, last = re.findall(r'\{"data":\[.*\],"next":"[\w-]+"\}', output)
    assert '"action":"order.failed"' in events
    assert re.fullmatch(r'\{"data":\[\],"next":"[\w-]+"\}', last)


def test_python_program(folder: Path) -> None:
    """It receives every move of its order, in order."""
    program = (EXAMPLES / "tills" / "follow_events.py").read_text()
    assert docs_programs.run(folder, program, sys.executable, "-").splitlines() == [
        "1 order.created created",
        "2 order.at_terminal at_terminal",
        "3 order.processed processed",
        "4 order.refunded refunded",
    ]


def test_every_status_is_in_the_table() -> None:
    """With its effect."""
    assert all(f"\n| `{status}` |" in PAGE for status in SIMULATED_DETAILS)
