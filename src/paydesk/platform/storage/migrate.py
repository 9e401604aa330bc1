"""Migrations: numbered SQL files in the shared subset, applied in order by one node at a time, each in one transaction.

Applied migrations are recorded with a checksum. A database whose history this version does not share is refused.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from paydesk.platform.storage.database import Database, Transaction, UnsafeDatabase
from paydesk.platform.storage.statements import split, strict

_FILE = re.compile(r"(?P<version>\d{4})_\w+\.sql")
_LOCK = 7_029_116_352_941

_PRE_RELEASE = "0001_initial.sql"
"""The first migration of the versions before the first release."""

PACKAGE, HISTORY = "paydesk.platform.storage.migrations", "schema_migrations"
"""The package of the files, and the table that records which are applied. Another distribution has its own."""

# No form that both databases share.
_LOCK_ON_POSTGRES = "SELECT pg_advisory_xact_lock($1)"
_HAS_HISTORY = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1",
    "postgres": "SELECT 1 WHERE to_regclass($1) IS NOT NULL",
}


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    script: str

    @property
    def checksum(self) -> str:
        """The digest that shows whether the file was changed after it was applied."""
        return hashlib.sha256(self.script.encode()).hexdigest()


@cache
def shipped(package: str = PACKAGE) -> tuple[Migration, ...]:
    """Return the migrations of this version, in order."""
    files = resources.files(package).iterdir()
    return tuple(
        Migration(int(match["version"]), file.name, file.read_text(encoding="utf-8"))
        for file in sorted(files, key=lambda file: file.name)
        if (match := _FILE.fullmatch(file.name))
    )


async def migrate(
    database: Database, now_ms: int, migrations: tuple[Migration, ...] | None = None, table: str = HISTORY
) -> list[str]:
    """Apply pending migrations and return their names. Raises `UnsafeDatabase` for an unknown or changed history."""
    expected, applied = shipped() if migrations is None else migrations, list[str]()

    async def apply_next(tx: Transaction) -> str | None:
        return await _apply_next(tx, database.name, now_ms, expected, table)

    while (name := await database.write(apply_next)) is not None:
        applied.append(name)
    return applied


async def pending(database: Database, migrations: tuple[Migration, ...] | None = None) -> list[str]:
    """Return the names of migrations that are not applied yet. Raises `UnsafeDatabase` as `migrate` does."""
    expected = shipped() if migrations is None else migrations
    return [one.name for one in await database.read(lambda tx: _pending(tx, database.name, expected, HISTORY))]


async def behind(database: Database) -> list[str]:
    """Return the names of this version's migrations that are not applied yet. A newer version's may be applied already.

    Raises `UnsafeDatabase` for a history that this version does not share.
    """

    async def work(tx: Transaction) -> list[str]:
        history = [name for _, name, _ in await _history(tx, database.name, HISTORY)]
        names = [migration.name for migration in shipped()]
        if history[: len(names)] != names[: len(history)]:
            raise UnsafeDatabase("The database belongs to another version of Paydesk. Run that version.")
        return names[len(history) :]

    return await database.read(work)


async def _apply_next(
    tx: Transaction, database_name: str, now_ms: int, expected: tuple[Migration, ...], table: str
) -> str | None:
    if database_name == "postgres":
        await tx.one(_LOCK_ON_POSTGRES, _LOCK)
    unapplied = await _pending(tx, database_name, expected, table)
    if not unapplied:
        return None
    migration = unapplied[0]
    create_history = f"""
CREATE TABLE IF NOT EXISTS {table} (
    version     bigint NOT NULL PRIMARY KEY,
    name        text   NOT NULL,
    checksum    text   NOT NULL,
    applied_ms  bigint NOT NULL
)"""
    for statement in (create_history, *split(migration.script)):
        await tx.run(strict(statement) if database_name == "sqlite" else statement)
    record = f"INSERT INTO {table} (version, name, checksum, applied_ms) VALUES ($1, $2, $3, $4)"
    await tx.run(record, migration.version, migration.name, migration.checksum, now_ms)
    return migration.name


async def _pending(
    tx: Transaction, database_name: str, expected: tuple[Migration, ...], table: str
) -> tuple[Migration, ...]:
    history = await _history(tx, database_name, table)
    for position, (version, name, checksum) in enumerate(history):
        if position >= len(expected) or (version, name) != (expected[position].version, expected[position].name):
            raise UnsafeDatabase(
                f"The database has migration {name}, which this version of Paydesk does not have at that position."
                " It belongs to another version: run that version or a newer one."
            )
        if checksum != expected[position].checksum:
            raise UnsafeDatabase(f"Migration {name} was changed after it was applied. Restore the original file.")
    return expected[len(history) :]


async def _history(tx: Transaction, database_name: str, table: str) -> list[tuple[int, str, str]]:
    """Return version, name and checksum of each applied migration. Raises `UnsafeDatabase` for a pre-release one."""
    if not await tx.one(_HAS_HISTORY[database_name], table):
        return []
    rows = await tx.all(f"SELECT version, name, checksum FROM {table} ORDER BY version")
    history = [(version, name, checksum) for version, name, checksum in rows]
    if history and history[0][1] == _PRE_RELEASE:
        raise UnsafeDatabase(
            "This database was created by a pre-release version of Paydesk and cannot be migrated. Start with a new"
            " database, or run the version that created this one."
        )
    return history
