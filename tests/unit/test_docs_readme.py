"""The README's commands, run unchanged in a folder in which `paydesk dev` runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from paydesk import cli

ROOT = Path(__file__).parents[2]
PROGRAM_SECONDS_MAX = 60


def _blocks(heading: str, language: str) -> str:
    """Return the code blocks of that language in a section of the README, joined."""
    _, _, section = (ROOT / "README.md").read_text().partition(f"\n## {heading}\n")
    section = re.split(r"^## ", section, maxsplit=1, flags=re.MULTILINE)[0]
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert blocks, heading
    return "\n".join(blocks)


def _run(folder: Path, *command: str, code: str) -> str:
    done = subprocess.run(
        command, cwd=folder, input=code, capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_with_curl(folder: Path) -> None:
    """From an authorization code to a delivered webhook with valid signatures."""
    output = _run(folder, "sh", "-eu", code=_blocks("A complete payment with curl", "sh"))
    assert re.search(r"^ORD[0-9A-Z]{26} is processed$", output, re.MULTILINE), output
    assert re.search(r'"signature_valid": ?true', output), output


def test_every_command_of_the_table_exists() -> None:
    """A name without `paydesk` before it stands for a command beside the one before it."""
    table = (ROOT / "README.md").read_text().partition("\n## Commands\n")[2]
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
    output = _run(folder, sys.executable, "-", code=_blocks("With an existing client", "python"))
    assert re.fullmatch(r"ORD[0-9A-Z]{26} created\n", output), output
