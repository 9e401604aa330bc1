"""The README's commands, run unchanged in a folder in which `paydesk dev` runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docs_programs import blocks, run, section
from paydesk.commands import cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_commands_with_curl(folder: Path) -> None:
    """From an authorization code to a delivered webhook with valid signatures."""
    program = "".join(blocks(section(README, "## A complete payment with curl"), "sh"))
    output = run(folder, program, "sh", "-eu")
    assert re.search(r"^ORD[0-9A-Z]{26} is processed$", output, re.MULTILINE), output
    assert re.search(r'"signature_valid": ?true', output), output


def test_every_command_of_the_table_exists() -> None:
    """A name without `paydesk` before it stands for a command beside the one before it."""
    table = README.partition("\n## Commands\n")[2]
    found: list[str] = []
    for cell in re.findall(r"^\| (`paydesk .*?) \|", table, re.MULTILINE):
        group: list[str] = []
        for name in re.findall(r"`(.*?)`", cell):
            words = name.removeprefix("paydesk ").split()
            if words[0].startswith("-"):
                continue
            path = _command([*([] if name.startswith("paydesk ") else group), *words])
            assert path, f"{name} in {cell}"
            group = path[:-1]
            found.append(" ".join(path))
    assert {"terminals act", "inbox", "clock reset", "webhooks replay"} <= set(found)


def _command(words: list[str]) -> list[str]:
    """Return the words that name a command; empty if the first names no command, or the second none of its group."""
    path: list[str] = []
    node: Any = cli.tree()
    for word in words:
        if not hasattr(node, "commands") or word.startswith("-"):
            break
        if word not in node.commands:
            return []
        node, path = node.commands[word], [*path, word]
    return path


def test_program_with_the_official_client(folder: Path) -> None:
    """The Python client creates an order."""
    program = "".join(blocks(section(README, "## With an existing client"), "python"))
    output = run(folder, program, sys.executable, "-")
    assert re.fullmatch(r"ORD[0-9A-Z]{26} created\n", output), output
