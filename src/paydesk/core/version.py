"""The version, and the commit of the code. Building the package imports this too, without dependencies."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from shutil import which

from paydesk import __version__

COMMIT_FILE = Path(__file__).with_name("commit.txt")
"""Written into the package when it is built; a checkout has none."""
GIT_SECONDS_MAX = 5


@cache
def version() -> str:
    """Return the version with the commit, as it was when this process first asked."""
    sha = commit()
    return f"{__version__} ({sha})" if sha else __version__


def commit() -> str:
    """Return the commit of this code, with `-dirty` if files were changed since; empty if it is unknown."""
    if COMMIT_FILE.exists():
        return COMMIT_FILE.read_text().strip()
    # A package without the file may be installed below another project's checkout, whose commit is not its own.
    return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*") if _git("ls-files", __file__) else ""


def _git(*arguments: str) -> str:
    program = which("git")
    if program is None:
        return ""
    command = (program, "-C", str(COMMIT_FILE.parent), *arguments)
    try:
        ended = subprocess.run(  # noqa: S603 - git, with arguments of this module
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS_MAX,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""
