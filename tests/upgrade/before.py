"""`paydesk …` of the kept version as a process, which `forks` forks from one that has imported it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from upgrade import kept

sys.path.insert(0, str(kept.unpacked()))

import paydesk.serve  # noqa: F401 - takes most of a start
from paydesk import cli


def main(arguments: Sequence[str]) -> None:
    """Run the command; its exit code is that of the process."""
    sys.argv = ["paydesk", *arguments]
    cli.main()
