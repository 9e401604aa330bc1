"""The start of `paydesk`. It can be stopped from its first moment, so it imports nothing that takes long."""

from __future__ import annotations

import os
import signal
import sys

SERVICES = ("serve", "dev")


def main() -> None:
    """Run a command. SIGTERM ends it at once, also as process 1, until `serve` or `dev` runs and ends in order.

    The exit code is 0 for these two and 143 for another command, which is not done. A program that starts this one may
    block the signal: it waits until here, whereas process 1 loses it while Python starts.
    """
    signal.signal(signal.SIGTERM, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    _open_closed_streams()
    from paydesk.commands import cli

    cli.main()


def _end(number: int, _frame: object) -> None:
    os._exit(0 if sys.argv[1:2] and sys.argv[1] in SERVICES else 128 + number)


def _open_closed_streams() -> None:
    """Open a standard stream that is closed, to nowhere: else the next file, the database, would have its number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # The lowest number that is free is this one.
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


if __name__ == "__main__":
    main()
