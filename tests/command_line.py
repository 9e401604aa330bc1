"""Run `paydesk …` in the test's process, which is faster than a new interpreter."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from kept_logging import kept_logging
from paydesk import cli


def command(*arguments: str, folder: Path, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `paydesk …` in `folder`; of the PAYDESK_* environment only `variables` are set."""
    out, err = io.StringIO(), io.StringIO()
    with kept_logging(), pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name in filter(lambda name: name.startswith("PAYDESK_"), tuple(os.environ)):
            patch.delenv(name)
        for name, value in {"NO_COLOR": "1", "COLUMNS": "120", **variables}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["paydesk", *arguments])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        patch.chdir(folder)
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(["paydesk", *arguments], code, out.getvalue(), err.getvalue())
