"""The programs in the pages of docs/: found by their headings, and run unchanged."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from paydesk_process import environment

DOCS = Path(__file__).parents[1] / "docs"
SECONDS_MAX = 180


def section(page: str, heading: str) -> str:
    """Return what is below a heading, such as `## Quick start`, up to the next one of its level or a higher one."""
    text = page.partition(f"\n{heading}\n")[2]
    assert text, heading
    return re.split(rf"^#{{2,{len(heading.split(maxsplit=1)[0])}}} ", text, maxsplit=1, flags=re.MULTILINE)[0]


def blocks(text: str, language: str) -> list[str]:
    """Return the blocks of a language, without the indentation of a list."""
    indented = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    assert indented, language
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in indented]


def run(folder: Path, program: str, *command: str, **variables: str) -> str:
    """Run the command with the program as its input; return its output."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(**{"NO_PROXY": "127.0.0.1", **variables}),
        input=program,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
