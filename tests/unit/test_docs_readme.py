"""The README's length, and the commands of the quickstart, run unchanged in a folder in which `paydesk dev` runs."""

from __future__ import annotations

import re
from pathlib import Path

from docs_programs import DOCS, blocks, run, section

README = DOCS.parent / "README.md"
LINES_MAX = 130


def test_commands_with_curl(folder: Path) -> None:
    """From an authorization code to a delivered webhook with valid signatures."""
    page = (DOCS / "quickstart.md").read_text()
    program = "".join(blocks(section(page, "## A complete payment with curl"), "sh"))
    output = run(folder, program, "sh", "-eu")
    assert re.search(r"^ORD[0-9A-Z]{26} is processed$", output, re.MULTILINE), output
    assert re.search(r'"signature_valid": ?true', output), output


def test_the_readme_is_short_and_leads_to_everything() -> None:
    """To a start page for each kind of reader, the index, and production."""
    text = README.read_text()
    assert len(text.splitlines()) <= LINES_MAX
    starts = sorted(page.name for page in DOCS.glob("start-*.md"))
    assert len(starts) == 4
    assert [name for name in (*starts, "README.md", "commands.md") if f"](docs/{name})" not in text] == []
