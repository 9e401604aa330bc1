"""`paydesk dev --fresh`: removes a development database and the journals of its virtual terminals. Server keys stay."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage import mark
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.storage.migrate import HISTORY, migrate, shipped
from paydesk.platform.storage.sqlite.file import FileLock

MIGRATIONS, KITS_HISTORY = "paydesk_dev.migrations", "kit_migrations"
"""The kit's own migrations, and the table that records them."""
HISTORIES = (HISTORY, KITS_HISTORY)
JOURNALS = "terminals"
_JOURNAL = re.compile(r"[A-Za-z0-9_-]{1,80}[.](json|unreadable)|[.][A-Za-z0-9_-]{1,80}[.]json[.]new", re.ASCII)
"""A journal, one that could not be read, or a draft of one."""

# No form that both databases share.
TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    "postgres": "SELECT CAST(relname AS text) FROM pg_class WHERE relkind IN ('r', 'p') AND pg_table_is_visible(oid)",
}

# In the schema of the mark alone: a table of another schema on the search path may have the same name.
TABLES_TO_DROP = """
SELECT CAST(relname AS text) FROM pg_class
 WHERE relkind IN ('r', 'p') AND pg_table_is_visible(oid)
   AND relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = to_regclass('database_mark'))"""

# Connections of Paydesk to this database but for this one.
SESSIONS = """
SELECT COUNT(*) FROM pg_stat_activity
 WHERE datname = current_database() AND application_name LIKE 'paydesk%' AND pid <> pg_backend_pid()"""


async def migrate_with_kit(database: Database, now_ms: int) -> None:
    """Apply the pending migrations, and then the kit's. Raises as `migrate`."""
    await migrate(database, now_ms)
    await migrate(database, now_ms, shipped(MIGRATIONS), KITS_HISTORY)


async def remove(settings: Settings, data: Path) -> None:
    """Remove the database of the settings, and the journals in the data folder.

    Raises `StartRefused` unless the database is marked for development or has no rows; `UnsafeDatabase` while another
    process uses it.
    """
    scheme, _, rest = settings.database_url.partition(":")
    if scheme != "sqlite":
        await _remove_tables(settings)
    elif (file := _file_of(rest)) is not None:
        await _remove_file(settings, file)
    _delete_journals(data)


async def _remove_file(settings: Settings, file: Path) -> None:
    """Delete the file, which is no link, while this process has its lock.

    The lock file stays: removing it would race with its owner.
    """
    lock = FileLock(file)
    try:
        database = await open_database(settings.database_url, exclusive=False)
        try:
            is_removable = await _is_removable(database)
        finally:
            await database.close()
        if is_removable:
            # The file first: SQLite ignores a log without its file, so a crash in between does no harm.
            for suffix in ("", "-wal", "-shm"):
                file.with_name(f"{file.name}{suffix}").unlink(missing_ok=True)
    finally:
        lock.release()


def _file_of(name: str) -> Path | None:
    """Return the path of the file itself, which has the lock, also if `name` is a link; None if there is no file."""
    file = Path(os.path.realpath(name))
    return file if file.exists() else None


def _delete_journals(data: Path) -> None:
    """Delete the journals and what is empty then. Other files stay, and links are not followed."""
    folder = data / JOURNALS
    if folder.is_symlink() or not folder.is_dir():
        return
    for seller in [one for one in folder.iterdir() if one.name.isdecimal() and one.is_dir() and not one.is_symlink()]:
        for file in seller.iterdir():
            if _JOURNAL.fullmatch(file.name):
                file.unlink()
        with suppress(OSError):
            seller.rmdir()
    with suppress(OSError):
        folder.rmdir()


async def _remove_tables(settings: Settings) -> None:
    """Drop Paydesk's tables in one transaction; other tables of the database stay."""

    async def drop(tx: Transaction) -> None:
        existing = {row[0] for row in await tx.all(TABLES_TO_DROP)}
        for table in sorted(existing & {*_own(), *HISTORIES}):
            await tx.run(f"DROP TABLE {table}")

    database = await open_database(
        settings.database_url, connections_max=1, timeout_seconds=settings.database_timeout_seconds
    )
    try:
        ((others,),) = await database.read(lambda tx: tx.all(SESSIONS))
        if others:
            raise StartRefused(
                f"Another Paydesk process uses this database ({others} connections). Stop it before `--fresh`."
            )
        if await _is_removable(database):
            await database.write(drop)
    finally:
        await database.close()


async def _is_removable(database: Database) -> bool:
    """Return whether the database is marked for development; False if it is empty. Raises `StartRefused` otherwise."""
    kind = await mark.find(database)
    if kind == "production":
        raise StartRefused(
            "This database is for production, so `--fresh` does not remove it. Set PAYDESK_DATABASE_URL to another"
            " database, or unset it to use one in the data folder."
        )
    if kind is None and await database.read(lambda tx: _has_rows(tx, database.name)):
        raise StartRefused(
            "This database has data but no mark of `paydesk dev`, so `--fresh` does not remove it. Set"
            " PAYDESK_DATABASE_URL to another database, or unset it to use one in the data folder."
        )
    return kind is not None


async def _has_rows(tx: Transaction, database_name: str) -> bool:
    """Return whether a table has rows: on SQLite any table, since the whole file would go, else one of Paydesk's."""
    for (table,) in await tx.all(TABLES[database_name]):
        if table in HISTORIES or table.startswith("sqlite_") or (database_name == "postgres" and table not in _own()):
            continue
        quoted = table.replace('"', '""')
        if await tx.one(f'SELECT 1 FROM "{quoted}" LIMIT 1') is not None:
            return True
    return False


@cache
def _own() -> frozenset[str]:
    """Return the tables that the migrations create."""
    script = "\n".join(migration.script for migration in (*shipped(), *shipped(MIGRATIONS)))
    return frozenset(re.findall(r"^CREATE TABLE (?:IF NOT EXISTS )?(\w+)", script, re.MULTILINE))
