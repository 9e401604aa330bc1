"""The switch of examples/switch for `forks.py`, with a clock that can be moved, and a kill at a certain moment."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from switch_process import FOLDER, KILLED_AFTER_COMMIT, KILLED_BEFORE_COMMIT

sys.path.insert(0, str(FOLDER))
book: Any = import_module("book")
switch: Any = import_module("switch")


def _die(*_args: Any, **_fields: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(arguments: list[str]) -> None:
    """Serve; the first arguments are the file of the clock and the moment of the kill, empty for none."""
    clock, killed, *options = arguments
    now, insert = book.now, book.Book.insert
    book.now = lambda: now() + float(Path(clock).read_text())
    if killed == KILLED_BEFORE_COMMIT:
        book.Book.insert = lambda self, table, **row: _die() if table == "answers" else insert(self, table, **row)
    if killed == KILLED_AFTER_COMMIT:
        switch.Switch.signed_response = _die
    sys.argv = ["switch.py", *options]
    switch.main()
