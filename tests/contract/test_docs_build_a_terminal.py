"""The commands of "Build a terminal", run in order against `paydesk dev`; the page's answers have the fields of the real ones."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paydesk_process import dev, environment

PAGE = (Path(__file__).parents[2] / "docs" / "build-a-terminal.md").read_text()
SECONDS_MAX = 90


def test_every_answer_is_as_documented(tmp_path: Path) -> None:
    """Each block of JSON has the fields of the last answer of the commands before it, and no others."""
    blocks = re.findall(r"^```(sh|json)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    program = "".join(f"{code}\nprintf '\\n=== {number}\\n'\n" for number, (kind, code) in enumerate(blocks) if kind == "sh")
    with dev(tmp_path):
        done = subprocess.run(
            ["sh", "-eu"],
            cwd=tmp_path,
            input=program,
            env=environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}"),
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    printed = dict(re.findall(r"(.*?)\n=== (\d+)\n", done.stdout, re.DOTALL))
    printed = {int(number): text for text, number in re.findall(r"(.*?)\n=== (\d+)\n", done.stdout, re.DOTALL)}
    for number, (kind, documented) in enumerate(blocks):
        if kind == "json":
            answer = json.loads(printed[number - 1].strip().splitlines()[-1])
            assert fields(json.loads(documented)) == fields(answer), documented


def fields(value: Any) -> Any:
    """Return the value with its texts and numbers replaced by their types, except those that are the same each time."""
    if isinstance(value, dict):
        return {name: item if name in SAME else fields(item) for name, item in value.items()}
    if isinstance(value, list):
        return [fields(item) for item in value]
    return type(value).__name__


SAME = frozenset({"type", "status", "status_detail", "go", "print", "verdict", "outcome", "operating_mode", "terminal_id"})
"""Fields whose value in the page must be the real one."""
