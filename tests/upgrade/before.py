"""`paydesk …` of the kept version as a process, which `forks` forks from one that has imported it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from upgrade import kept

sys.path.insert(0, str(kept.unpacked()))

# By name, as its folders may not be those of this checkout.
import_module("paydesk.serve")  # takes most of a start
cli = import_module("paydesk.cli")


def main(arguments: Sequence[str]) -> None:
    """Run the command; its exit code is that of the process."""
    sys.argv = ["paydesk", *arguments]
    cli.main()
