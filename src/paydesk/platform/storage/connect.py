"""Opens the database of a URL."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from paydesk.core.signals import Signals
from paydesk.platform.storage.database import Database, Pooling, Unavailable, UnsafeDatabase

DIRECT_NEEDED = (
    "A connection pooler in transaction mode is between Paydesk and PostgreSQL. Notifications and migrations need a"
    " session of their own: set PAYDESK_DATABASE_LISTEN_URL to the URL of PostgreSQL itself."
)


async def open_database(
    url: str,
    *,
    signals: Signals | None = None,
    connections_max: int = 20,
    timeout_seconds: float = 15,
    exclusive: bool = True,
) -> Database:
    """Open `sqlite:FILE` or `postgresql://…` within the running event loop.

    `exclusive=False` is for tools that only read a SQLite file while a service has it open. Raises `UnsafeDatabase` for
    a configuration that can lose acknowledged commits, `Unavailable` when the database cannot be reached.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite":
        return _open_file(rest, signals=signals, exclusive=exclusive)
    if scheme in ("postgres", "postgresql"):
        from paydesk.platform.storage.postgres.database import PostgresDatabase

        database = PostgresDatabase(
            url, signals=signals, connections_max=connections_max, timeout_seconds=timeout_seconds
        )
        try:
            await database.check()
        except BaseException:
            await database.close()
            raise
        return database
    raise UnsafeDatabase("A database URL is `sqlite:FILE` or `postgresql://user:password@host/name`.")


def pooler_of(database: Database) -> Pooling | None:
    """Return how a connection pooler in front of the database lends connections; None without one."""
    pooler: Pooling | None = getattr(database, "pooler", None)
    return pooler


@asynccontextmanager
async def notifications_published(url: str, database: Database) -> AsyncIterator[None]:
    """Exchange notifications with the other nodes of the same database until the end of the block.

    It does not wait for the connection: notifications are hints. A SQLite file has one node and needs no exchange.
    """
    if database.name == "sqlite":
        yield
        return
    from paydesk.platform.storage.postgres.notify import Relay

    async with Relay(url, database.signals):
        yield


def _open_file(name: str, *, signals: Signals | None, exclusive: bool) -> Database:
    from paydesk.platform.storage.sqlite.database import SqliteDatabase

    if name in ("", ":memory:"):
        raise UnsafeDatabase("SQLite needs a file (`sqlite:FILE`): a database in memory is lost when the process ends.")
    # The lock and the log are beside the file itself, also if `name` is a link.
    file = Path(os.path.realpath(name))
    try:
        is_folder, is_missing = file.is_dir(), not file.exists()
    except OSError as error:
        raise Unavailable(f"{file} cannot be opened: {error.strerror}.") from None
    if is_folder:
        raise UnsafeDatabase(f"{file} is a folder; SQLite needs a file (`sqlite:FILE`).")
    if not exclusive and is_missing:
        raise Unavailable(f"{file} does not exist. Set PAYDESK_DATABASE_URL=sqlite:FILE to the database.")
    return SqliteDatabase(file, signals=signals, exclusive=exclusive)
