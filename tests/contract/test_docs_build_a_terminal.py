"""The commands of "Build a terminal", run in order against `paydesk dev`, and their documented answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import dev_thread
from command_line import paydesk_on_path
from docs_programs import DOCS, run

PAGE = (DOCS / "build-a-terminal.md").read_text()
SAME = frozenset(
    {"type", "status", "status_detail", "go", "print", "verdict", "outcome", "operating_mode", "terminal_id"}
)
"""The fields whose documented value is the real one; of others only the type is compared."""


def test_every_answer_is_as_documented(tmp_path: Path) -> None:
    """Each block of JSON has the fields of the last answer of the commands before it, and no others."""
    blocks = re.findall(r"^```(sh|json)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    program = "".join(f"{code}\nprintf '\\n=== {at}\\n'\n" for at, (kind, code) in enumerate(blocks) if kind == "sh")
    with dev_thread.dev(tmp_path), paydesk_on_path(tmp_path) as path:
        # A terminal's first request for its token never comes too early.
        sleep = tmp_path / ".venv/bin/sleep"
        sleep.write_text("#!/bin/sh\n")
        sleep.chmod(0o700)
        output = run(tmp_path, program, "sh", "-eu", PATH=path)
    assert {path.name for path in tmp_path.iterdir()} == {".paydesk", ".venv"}
    printed = {int(at): text for text, at in re.findall(r"(.*?)\n=== (\d+)\n", output, re.DOTALL)}
    documented = [(at, json.loads(text)) for at, (kind, text) in enumerate(blocks) if kind == "json"]
    assert documented
    for at, answer in documented:
        assert _fields(json.loads(printed[at - 1].splitlines()[-1])) == _fields(answer), blocks[at][1]


def _fields(value: Any) -> Any:
    """Return the value with the types of texts and numbers in their place, except in the fields of `SAME`."""
    if isinstance(value, dict):
        return {name: item if name in SAME else _fields(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_fields(item) for item in value]
    return type(value).__name__
