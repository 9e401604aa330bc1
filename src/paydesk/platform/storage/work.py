"""The rules of a unit of work, which both drivers enforce: it awaits only its transaction, and only while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Database, Overtaken, Transaction, Unavailable, Work, WorkError
from paydesk.platform.storage.metrics import note_failure

T = TypeVar("T")

USED_AFTER_ITS_END = "A transaction was used after the end of its unit of work."
SWALLOWED_AN_ERROR = "A unit of work caught a database error and continued; it was rolled back."
WROTE_IN_A_READ = "A unit of work wrote in a read."


OVERTAKEN_MAX = 10


class Unit:
    """A queued unit of work: its caller's context and future, and its result or error."""

    __slots__ = ("answer", "context", "error", "result", "work")

    def __init__(self, work: Work[Any], answer: asyncio.Future[Any]) -> None:
        self.work, self.answer = work, answer
        self.context = copy_context()
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Resolve the caller's future, unless the caller was canceled."""
        if self.answer.done():
            return
        if self.error is None:
            self.answer.set_result(self.result)
        else:
            note_failure(self.error)
            self.answer.set_exception(self.error)


async def write_until_kept(database: Database, work: Work[T], conflict_keys: Collection[ConflictKey] = ()) -> T:
    """Run the work in a transaction, and again if another work has overtaken it, whose rows it then finds."""
    for _ in range(OVERTAKEN_MAX):
        with suppress(Overtaken):
            return await database.write(work, conflict_keys=conflict_keys)
    raise Unavailable(f"Other work changed the same rows {OVERTAKEN_MAX} times.")


def run_at_once(work: Work[T], tx: Transaction) -> T:
    """Run a work whose transaction never suspends, so that it ends in one step."""
    steps = work(tx).__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    raise awaited_something_else(steps)


def awaited_something_else(steps: Generator[Any, Any, Any]) -> WorkError:
    """Close a work that suspended outside its transaction, and return the error for its caller."""
    # A work that awaits in its `finally` cannot be closed.
    with suppress(RuntimeError):
        steps.close()
    return WorkError("A unit of work awaited something other than its transaction; it may await only `tx`.")
