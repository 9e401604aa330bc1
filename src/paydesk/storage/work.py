"""The rules of a unit of work, as both drivers enforce them: it awaits its own transaction alone, while it runs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Any, TypeVar

from paydesk.storage.database import Transaction, Work, WorkError

T = TypeVar("T")

USED_AFTER_ITS_END = "A transaction was used after the end of its unit of work."
SWALLOWED_AN_ERROR = "A unit of work caught a database error and went on; nothing of it was kept."
WROTE_IN_A_READ = "A unit of work that only reads wrote."


def run_at_once(work: Work[T], tx: Transaction) -> T:
    """Run a work whose transaction never suspends: one step is the whole of it."""
    steps = work(tx).__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    raise awaited_something_else(steps)


def awaited_something_else(steps: Generator[Any, Any, Any]) -> WorkError:
    """End a work that suspended where it must not; what to tell its caller."""
    # It may await even while it is ended: then it cannot be ended any better.
    with suppress(RuntimeError):
        steps.close()
    return WorkError("A unit of work awaited something else than its transaction; it may await nothing but `tx`.")
