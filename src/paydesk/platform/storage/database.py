"""The interface to a database: units of work over a transaction, the same for SQLite and PostgreSQL.

A unit of work is an `async def work(tx)` that awaits only `tx`, has no other effects and catches no database error: the
driver may run it again, and in one transaction with others. Raising rolls it back, returning commits it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Literal, Protocol, TypeVar

from paydesk.core.signals import Signals
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.silence import Silence

T = TypeVar("T")

Row = Sequence[Any]
"""A row: its values in the order of the statement's columns, as for `Order(*row)`."""


Pooling = Literal["session", "transaction"]
"""For how long a connection pooler lends its clients a connection to the server."""


class Transaction(Protocol):
    """What a unit of work may await. SQL has `$1` placeholders and stays in the subset that both databases share."""

    @property
    def writes(self) -> int:
        """A number that grows with every row that the transaction changes and with every deferred statement."""

    def one(self, sql: str, *args: Any) -> Awaitable[Row | None]:
        """Return the first row, or None."""

    def all(self, sql: str, *args: Any) -> Awaitable[list[Row]]:
        """Return all rows."""

    def run(self, sql: str, *args: Any) -> Awaitable[int]:
        """Run a statement and return how many rows it affected."""

    def defer(self, sql: str, *args: Any, notify: str = "", required: bool = False) -> None:
        """Run a statement at the end of the work, before the commit, and notify the topic if it affected rows.

        For statements whose result the work does not need. They do not see each other's rows. If a `required` one,
        which affects at most one row, affects none, the work is rolled back and raises `Overtaken`; the others may
        have run by then and must not fail. Raises `WorkError` for a second one that may touch a row of the first.
        """

    def notify(self, topic: str) -> None:
        """Notify subscribers of `topic` after the commit."""


Work = Callable[[Transaction], Awaitable[T]]


class Database(Protocol):
    """A database with one schema. `name` is `sqlite` or `postgres`, for statements that have no shared form."""

    name: str
    signals: Signals

    @property
    def silence(self) -> Silence | None:
        """Return whether the server is silent; None for a file, which has no server."""

    async def write(self, work: Work[T], *, conflict_keys: Collection[ConflictKey] = ()) -> T:
        """Run `work` in a transaction and return once it is durable. An exception from `work` rolls it back.

        `conflict_keys` names everything that the work may change or lock (see `core.conflict_keys`): it can then share
        a transaction with works that have other keys. Without them it may run alone.

        Raises `Unavailable` when nothing was committed or the outcome is unknown, `Locked` when another transaction
        kept a row locked for 10 seconds.
        """

    async def read(self, work: Work[T], *, heavy: bool = False) -> T:
        """Run `work` without writing. `heavy` is for searches, lists and checks: they do not delay other reads."""

    async def check_writable(self) -> None:
        """Raise `ReadOnly`, `DiskFull` or another `Unavailable` if the database accepts no writes."""

    async def close(self) -> None:
        """Finish the units that run and release the database."""


class Unavailable(Exception):
    """The database is unreachable, full or read-only: nothing was committed, or the outcome is unknown."""

    message: str | None = None
    """The message of the response, if the general one does not apply."""


class DiskFull(Unavailable):
    """The disk is full; nothing was committed."""

    message = "The database's disk is full; nothing was done."


class ReadOnly(Unavailable):
    """The database accepts no writes; nothing was committed. `/readyz` shows the reason: no file or server names."""

    message = "The database is read-only; nothing was done."


class Locked(Exception):
    """Another transaction kept a row locked for too long; nothing was committed."""


class Overtaken(Exception):
    """A required statement affected no row: what the work relied on is not so, or no longer. Nothing was committed."""


class WorkError(Exception):
    """A unit of work violated its rules (awaited something other than `tx`, used `tx` after its end): a defect."""


class UnsafeDatabase(Exception):
    """The database cannot be used as configured, or belongs to another version. The message says what to change."""


class DatabaseInUse(UnsafeDatabase):
    """Another process has the SQLite file, which serves one process."""
