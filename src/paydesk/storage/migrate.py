"""Migrations: numbered SQL files in the shared subset, run in order, each in one transaction, one node at a time.

What was applied is remembered with a checksum; a history that is unknown here or was changed since is refused.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from paydesk.storage.database import Database, Transaction, UnsafeDatabase
from paydesk.storage.statements import split, strict

_FILE = re.compile(r"(?P<version>\d{4})_\w+\.sql")
_LOCK = 7_029_116_352_941

_CREATE_HISTORY = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version     bigint NOT NULL PRIMARY KEY,
    name        text   NOT NULL,
    checksum    text   NOT NULL,
    applied_ms  bigint NOT NULL
)"""
_HISTORY = "SELECT version, name, checksum FROM schema_migrations ORDER BY version"
_RECORD = "INSERT INTO schema_migrations (version, name, checksum, applied_ms) VALUES ($1, $2, $3, $4)"

# What has no shared form.
_LOCK_ON_POSTGRES = "SELECT pg_advisory_xact_lock($1)"
_HAS_HISTORY = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'",
    "postgres": "SELECT 1 WHERE to_regclass('schema_migrations') IS NOT NULL",
}


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    script: str

    @property
    def checksum(self) -> str:
        """By which a change after the fact is noticed."""
        return hashlib.sha256(self.script.encode()).hexdigest()


@cache
def shipped() -> tuple[Migration, ...]:
    """The migrations of this version of Paydesk, in order."""
    files = resources.files("paydesk.storage.migrations").iterdir()
    return tuple(
        Migration(int(match["version"]), file.name, file.read_text(encoding="utf-8"))
        for file in sorted(files, key=lambda file: file.name)
        if (match := _FILE.fullmatch(file.name))
    )


async def migrate(database: Database, now_ms: int, migrations: tuple[Migration, ...] | None = None) -> list[str]:
    """Apply what is pending and return its names. Raises `UnsafeDatabase` for an unknown or changed history."""
    applied = []
    while (name := await database.write(lambda tx: _apply_next(tx, database.name, now_ms, migrations))) is not None:
        applied.append(name)
    return applied


async def pending(database: Database, migrations: tuple[Migration, ...] | None = None) -> list[str]:
    """The names of migrations that were not applied yet. Raises `UnsafeDatabase` as `migrate` does."""
    return [migration.name for migration in await database.read(lambda tx: _missing(tx, database.name, migrations))]


async def behind(database: Database) -> list[str]:
    """The names of this version's migrations that were not applied yet; those of a newer one may be there already.

    Raises `UnsafeDatabase` for a history that this version does not share.
    """

    async def work(tx: Transaction) -> list[str]:
        history = [name for _, name, _ in await tx.all(_HISTORY)] if await tx.one(_HAS_HISTORY[database.name]) else []
        known = [migration.name for migration in shipped()]
        if history[: len(known)] != known[: len(history)]:
            raise UnsafeDatabase("The database belongs to another version of Paydesk.")
        return known[len(history) :]

    return await database.read(work)


async def _apply_next(
    tx: Transaction, database_name: str, now_ms: int, migrations: tuple[Migration, ...] | None
) -> str | None:
    if database_name == "postgres":
        await tx.one(_LOCK_ON_POSTGRES, _LOCK)
    missing = await _missing(tx, database_name, migrations)
    if not missing:
        return None
    migration = missing[0]
    for statement in (_CREATE_HISTORY, *split(migration.script)):
        await tx.run(strict(statement) if database_name == "sqlite" else statement)
    await tx.run(_RECORD, migration.version, migration.name, migration.checksum, now_ms)
    return migration.name


async def _missing(
    tx: Transaction, database_name: str, migrations: tuple[Migration, ...] | None
) -> tuple[Migration, ...]:
    known = shipped() if migrations is None else migrations
    history = await tx.all(_HISTORY) if await tx.one(_HAS_HISTORY[database_name]) else []
    for position, (version, name, checksum) in enumerate(history):
        if position >= len(known) or (version, name) != (known[position].version, known[position].name):
            raise UnsafeDatabase(
                f"The database has migration {name}, which this version of Paydesk does not have in that place: "
                "it belongs to another version. Run the version that wrote it, or a newer one."
            )
        if checksum != known[position].checksum:
            raise UnsafeDatabase(
                f"Migration {name} was changed after it was applied to this database. Put the file back as it was."
            )
    return known[len(history) :]
