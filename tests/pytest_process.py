"""pytest as a developer of a till runs it: in a process of its own, with the plugin and one test file."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Self

from paydesk_process import environment
from waiting import HANGS_SECONDS


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that has ended."""

    code: int
    output: str

    @property
    def outcomes(self) -> dict[str, int]:
        """How many tests passed, failed and so on."""
        last = next(line for line in reversed(self.output.splitlines()) if re.search(r"\bin \d", line))
        return {name: int(count) for count, name in re.findall(r"(\d+) (\w+)", last.partition(" in ")[0])}

    @classmethod
    def of(cls, folder: Path, source: str, *options: str, ini: str = "", **variables: str) -> Self:
        """Run the tests of this source."""
        (folder / "test_till.py").write_text(source)
        (folder / "pytest.ini").write_text(f"[pytest]\naddopts = --strict-markers\n{ini}")
        # An installation that is older than the entry point has no plugin.
        plugin = () if "paydesk" in entry_points(group="pytest11").names else ("-p", "paydesk_dev.testing.plugin")
        plugins = ("-p", "no:cacheprovider", "-p", "no:asyncio", *plugin)
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *plugins, f"--basetemp={folder / 'base'}", *options],
            cwd=folder,
            env=environment(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=3 * HANGS_SECONDS,
            check=False,
        )
        return cls(ended.returncode, ended.stdout + ended.stderr)
