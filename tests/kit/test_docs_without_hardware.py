"""The programs of docs/test-without-hardware.md, run unchanged with a service that is started as described there."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import get_args

import pytest

from docs_programs import DOCS, blocks, run, section
from paydesk_dev.virtual.terminal.actions import ActionName

PAGE = (DOCS / "test-without-hardware.md").read_text()


def _programs(heading: str, language: str = "sh") -> str:
    """Return the programs of a section in that language, joined."""
    return "".join(blocks(section(PAGE, heading), language))


@pytest.mark.long("starts the service and runs each program of the page")
def test_the_programs_do_what_the_page_says(tmp_path: Path) -> None:
    """In a folder that is like a clone after `make`, one after the other.

    A terminal for a person is created with the address of its page. Once it shows `approved`, the ten lines that drive
    it have a paid order. A coupon is printed. The test of a wrong PIN passes with its fixture, under pytest.
    """
    output = _output(tmp_path)
    address = r"http://127\.0\.0\.1:\d+/virtual/PAYDESK_VIRTUAL__\w+\?key=1-[0-9a-f]{32}"
    assert re.search(rf"^script +manual\npage_url +{address}$", output, re.MULTILINE), output
    assert '"screen":"present_card"' in output
    assert '"screen":"approved"' in output
    assert re.search(r"ORD[0-9A-Z]{26} is paid$", output, re.MULTILINE), output
    assert re.search(r"^[0-9a-f-]{36} is printed$", output, re.MULTILINE), output
    assert "1 passed" in output


def _output(folder: Path) -> str:
    """Run all programs in this folder; return what they print."""
    # No link to the environment: Python would compile all packages again for the other path.
    (folder / ".venv/bin").mkdir(parents=True)
    for name in ("paydesk", "python"):
        starter = folder / ".venv/bin" / name
        starter.write_text(f'#!/bin/sh\nexec {Path(sys.executable).with_name(name)} "$@"\n')
        starter.chmod(0o700)
    shutil.copy(DOCS.parent / "examples" / "tills" / "test_point_of_sale.py", folder)
    program = (
        _programs("## In CI")
        + "trap 'kill $!' EXIT\n"
        + _programs("## Take a payment by hand")
        + _programs("## Drive it from a test")
        + _programs("## Print on it")
        + ".venv/bin/python -m pytest -q -p no:cacheprovider test_point_of_sale.py\n"
    )
    return run(folder, program, "sh", "-eu")


def test_every_action_is_listed() -> None:
    """In the table, and no other."""
    table = section(PAGE, "## Drive it from a test").partition("| Action |")[2]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(get_args(ActionName))
