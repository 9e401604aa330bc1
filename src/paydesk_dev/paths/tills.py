"""A till as a path uses it, and two kinds: a person who is asked to do things, and a program that is run for each."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from paydesk_dev.paths.judgement import OPEN, PAID, PERSON, UNPAID, UNSAID

BEFORE_SECONDS_MAX = 10.0
STANDARD_ERROR = 2
"""Where a program prints, because standard output may be the result as JSON."""


WORDS = {0: PAID, 1: UNPAID, 3: PERSON, 4: OPEN}
"""What the exit code of a program says of its sale."""


class Till(Protocol):
    """A till as a path uses it. `sale`, `cancel` and `refund` begin something and return at once."""

    def sale(self, reference: str, amount: str) -> None:
        """Sell; the same sale again if it was not paid or there was no answer."""

    def cancel(self, reference: str) -> None:
        """Cancel the sale."""

    def refund(self, reference: str, amount: str | None) -> None:
        """Refund a part, or all that is left; the same refund again if there was no answer."""

    def status(self, reference: str) -> str:
        """Return `open`, `paid` (the goods are handed over), `unpaid`, `refunded` or `person`; empty if not known."""

    def kill(self) -> None:
        """End, without a warning."""

    def start(self) -> None:
        """Start again after a kill, and go on with the open sales."""


class AskedTill:
    """A till of a person, who is asked for each thing in a sentence."""

    def __init__(self, ask: Callable[[str], None]) -> None:
        self._ask = ask
        self._sold = set[str]()

    def sale(self, reference: str, amount: str) -> None:
        """Ask for a sale."""
        again = reference in self._sold
        self._sold.add(reference)
        self._ask("Press again, for the same sale." if again else f"Sell {amount}.")

    def cancel(self, _reference: str) -> None:
        """Ask for a cancel."""
        self._ask("Cancel the sale.")

    def refund(self, _reference: str, amount: str | None) -> None:
        """Ask for a refund."""
        self._ask(f"Refund {amount or 'what is left'}.")

    def kill(self) -> None:
        """Ask for a kill."""
        self._ask("Kill the till: end its process, or pull its plug.")

    def start(self) -> None:
        """Ask for a start."""
        self._ask("Start the till again.")

    def status(self, _reference: str) -> str:
        """Return nothing: only the person sees it."""
        return ""


class ProgramTill:
    """A till that is a program, which is run for each thing: `sale REFERENCE AMOUNT`, `cancel REFERENCE` and so on.

    A sale and a refund begin when what was run before has ended, or after `BEFORE_SECONDS_MAX`. Its word is the exit
    code of the last one; a cancel has none, because the sale goes on and ends with its own.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, {**os.environ, **environment}
        self._processes = list[subprocess.Popen[bytes]]()
        self._newest = dict[str, subprocess.Popen[bytes]]()

    def sale(self, reference: str, amount: str) -> None:
        """Run it for a sale."""
        self._wait()
        self._newest[reference] = self._run("sale", reference, amount)

    def cancel(self, reference: str) -> None:
        """Run it for a cancel."""
        self._run("cancel", reference)

    def refund(self, reference: str, amount: str | None) -> None:
        """Run it for a refund."""
        self._wait()
        self._newest[reference] = self._run("refund", reference, *filter(None, [amount]))

    def kill(self) -> None:
        """Kill all that it runs."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._processes.clear()
        self._newest.clear()

    def start(self) -> None:
        """Run it to go on with its open sales."""
        self._run("sweep")

    def status(self, reference: str) -> str:
        """Return what the exit code says: `open` while it runs, empty after a kill or with another code."""
        if (process := self._newest.get(reference)) is None:
            return UNSAID
        code = process.poll()
        return OPEN if code is None else WORDS.get(code, UNSAID)

    def _wait(self) -> None:
        end = time.monotonic() + BEFORE_SECONDS_MAX
        with suppress(subprocess.TimeoutExpired):
            for process in self._processes:
                process.wait(max(0, end - time.monotonic()))

    def _run(self, *words: str) -> subprocess.Popen[bytes]:
        # A group of its own, so that a kill reaches what it starts.
        started = subprocess.Popen(  # noqa: S603 - the developer's own command
            [*self._command, *words], env=self._environment, stdout=STANDARD_ERROR, start_new_session=True
        )
        self._processes.append(started)
        return started
