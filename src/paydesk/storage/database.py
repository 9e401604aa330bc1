"""The interface to a database: units of work over a transaction, the same for SQLite and PostgreSQL.

A unit of work is `async def work(tx)` that awaits nothing but `tx`, has no effect outside it, and catches no database
error: the driver may run it again, and together with others. *Raise to undo, return to keep.*
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from paydesk.core.signals import Signals

T = TypeVar("T")

Row = Sequence[Any]
"""A row is its values in the order of the statement's columns, fit for `Order(*row)`."""


class Transaction(Protocol):
    """What a unit of work may await. SQL has `$1` placeholders and stays within the subset both databases share."""

    @property
    def writes(self) -> int:
        """A number that grows with every row the transaction changes."""

    def one(self, sql: str, *args: Any) -> Awaitable[Row | None]:
        """The only row, or None."""

    def all(self, sql: str, *args: Any) -> Awaitable[list[Row]]:
        """All rows."""

    def run(self, sql: str, *args: Any) -> Awaitable[int]:
        """Run a statement that returns no rows; how many rows it touched."""

    def defer(self, sql: str, *args: Any, notify: str = "") -> None:
        """Run a statement before the commit, when the work has come to its end, and wake `wake` if it touched rows.

        For what nobody needs to wait for. Such statements don't see each other's rows, nor do later ones see theirs.
        """

    def notify(self, topic: str) -> None:
        """After the commit, and only then, wake who waits on `topic`."""


Work = Callable[[Transaction], Awaitable[T]]


class Database(Protocol):
    """A database with one schema. `name` is `sqlite` or `postgres`, for the statements that have no shared form."""

    name: str
    signals: Signals

    async def write(self, work: Work[T], *, conflict_keys: Iterable[Hashable] = ()) -> T:
        """Run `work` in a transaction and return once it is durable. An exception from `work` rolls it back.

        `conflict_keys` names all that the work may change or lock (a key, an order, a terminal, a token): it may then
        share a transaction with works that touch something else. Without it the work may have to run alone.

        Raises `Unavailable` when nothing was done or when the outcome is unknown, `Locked` when a row that the work
        needs stayed locked by another for 10 seconds.
        """

    async def read(self, work: Work[T], *, heavy: bool = False) -> T:
        """Run `work` without writing. `heavy` is for searches, lists and checks: they don't hold the others up."""

    async def check_writable(self) -> None:
        """Raise `ReadOnly`, `DiskFull` or another `Unavailable` while the database takes no writes."""

    async def close(self) -> None:
        """End what runs and release the database."""


class Unavailable(Exception):
    """The database is out of reach, full or read-only: nothing was done, or the outcome is unknown."""

    message: str | None = None
    """What the caller is told, where the general sentence would not be true."""


class DiskFull(Unavailable):
    """There is no room for what was to be written; nothing was done."""

    message = "The database's disk is full; nothing was done."


class ReadOnly(Unavailable):
    """The database takes no writes; nothing was done. `/readyz` shows the reason: it names no file or server."""

    message = "The database is read-only; nothing was done."


class Locked(Exception):
    """Another transaction held a row for too long; nothing was done."""


class WorkError(Exception):
    """A unit of work broke its rules (awaited something else than its transaction, ran after its end): a defect."""


class UnsafeDatabase(Exception):
    """Start-up refused: what is configured can lose acknowledged commits. The message says what to change."""
