"""Migrations: numbered SQL files in the shared subset, applied in order by one node at a time, each in one transaction.

Applied migrations are recorded with a checksum and with the oldest version of Paydesk that may run on them: from that
version on, one also starts on a database with later migrations than its own. Any other history is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

from paydesk import __version__
from paydesk.platform.storage.database import Database, Row, Transaction, UnsafeDatabase
from paydesk.platform.storage.locks import LockWatch
from paydesk.platform.storage.statements import built_concurrently, split, strict

_FILE = re.compile(r"(?P<version>\d{4})_\w+\.sql")
_RUNS_WITH = re.compile(r"-- runs with (\d+\.\d+\.\d+)\n")
_LOCK = 7_029_116_352_941

_PRE_RELEASE = "0001_initial.sql"
"""The first migration of the versions before the first release."""

PACKAGE, HISTORY = "paydesk.platform.storage.migrations", "schema_migrations"
"""The package of the files, and the table that records which are applied. Another distribution has its own."""

FIRST_AWARE = "0.2.0"
"""The first version that reads `runs_with`: that of files without the line."""

# No form that both databases share.
_LOCK_ON_POSTGRES = "SELECT pg_advisory_xact_lock($1)"
_COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info($1)",
    "postgres": """
SELECT CAST(attname AS text) FROM pg_attribute
 WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped""",
}
_CREATE_HISTORY = """
CREATE TABLE {} (
    version     bigint NOT NULL PRIMARY KEY,
    name        text   NOT NULL,
    checksum    text   NOT NULL,
    applied_ms  bigint NOT NULL,
    runs_with   text
)"""
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)"


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

    @property
    def runs_with(self) -> str:
        """The oldest version of Paydesk that may run on a database with this migration, from the file's first line."""
        line = _RUNS_WITH.match(self.script)
        return line[1] if line is not None else FIRST_AWARE

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements of the file."""
        return tuple(split(self.script))

    @property
    def is_outside_transaction(self) -> bool:
        """Whether PostgreSQL runs its statements outside a transaction: it builds indexes concurrently."""
        return any(map(built_concurrently, self.statements))


class State(NamedTuple):
    """The migrations of this version that are not applied yet, and the names of later ones, on which it may run."""

    pending: tuple[Migration, ...]
    newer: tuple[str, ...]


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
    """Apply pending migrations and return their names.

    Raises `UnsafeDatabase` for an unknown or changed history, and `Locked`, which names the sessions that keep a lock,
    if a lock cannot be had in time.
    """
    expected = shipped() if migrations is None else migrations
    is_postgres, applied, built = database.name == "postgres", list[str](), ""
    form: Callable[[str], str] = str if is_postgres else strict

    def needs_build(one: Migration) -> bool:
        return is_postgres and one.is_outside_transaction and one.name != built

    async def apply_next(tx: Transaction) -> Migration | None:
        if is_postgres:
            await watch.begin(tx, in_transaction=True)
            await tx.one(_LOCK_ON_POSTGRES, _LOCK)
        columns = await _columns(tx, database.name, table)
        history = await _history(tx, columns, table)
        unapplied = _compared(history, expected).pending
        if not columns:
            await tx.run(form(_CREATE_HISTORY.format(table)))
        await _add_column(tx, columns, expected[: len(history)], table)
        if not unapplied:
            return None
        one = unapplied[0]
        if needs_build(one):
            return one
        for statement in one.statements if one.name != built else ():
            await tx.run(form(statement))
        record = f"INSERT INTO {table} (version, name, checksum, applied_ms, runs_with) VALUES ($1, $2, $3, $4, $5)"
        await tx.run(record, one.version, one.name, one.checksum, now_ms, one.runs_with)
        return one

    async with LockWatch(database) as watch:
        while (one := await database.write(apply_next)) is not None:
            if needs_build(one):
                await _build(database, one, watch)
                built = one.name
            else:
                applied.append(one.name)
    return applied


async def state(database: Database, migrations: tuple[Migration, ...] | None = None, table: str = HISTORY) -> State:
    """Return which migrations are pending, and which are newer. Raises `UnsafeDatabase` as `migrate` does."""

    async def work(tx: Transaction) -> State:
        history = await _history(tx, await _columns(tx, database.name, table), table)
        return _compared(history, shipped() if migrations is None else migrations)

    return await database.read(work)


async def pending(database: Database, migrations: tuple[Migration, ...] | None = None) -> list[str]:
    """Return the names of migrations that are not applied yet. Raises `UnsafeDatabase` as `migrate` does."""
    return [one.name for one in (await state(database, migrations)).pending]


async def _add_column(tx: Transaction, columns: frozenset[str], applied: Sequence[Migration], table: str) -> None:
    """Add the column that versions before `FIRST_AWARE` do not know, and its values, to a table without it."""
    if not columns or "runs_with" in columns:
        return
    await tx.run(f"ALTER TABLE {table} ADD COLUMN runs_with text")
    for one in applied:
        await tx.run(f"UPDATE {table} SET runs_with = $2 WHERE version = $1", one.version, one.runs_with)


async def _build(database: Database, migration: Migration, watch: LockWatch) -> None:
    """Build the indexes of a migration on PostgreSQL; an invalid one, which an earlier run left, is dropped first."""
    from paydesk.platform.storage.postgres.database import PostgresDatabase

    async def work(tx: Transaction) -> None:
        await watch.begin(tx, in_transaction=False)
        for statement in migration.statements:
            index = built_concurrently(statement)
            assert index, f"{migration.name} has other statements, which need a transaction"
            found = await tx.one(_IS_VALID, index)
            if found is not None and not found[0]:
                await tx.run(f"DROP INDEX CONCURRENTLY {index}")
            if found is None or not found[0]:
                await tx.run(statement)
        await tx.run("RESET lock_timeout")

    assert isinstance(database, PostgresDatabase), "no other database builds indexes outside a transaction"
    await database.run_outside_transaction(work)


def _compared(history: Sequence[Row], expected: tuple[Migration, ...]) -> State:
    """Compare the history with the migrations of this version. Raises `UnsafeDatabase` if it may not run on it."""
    for position, (version, name, checksum, runs_with) in enumerate(history):
        own = expected[position] if position < len(expected) else None
        if runs_with is None if own is None else (version, name) != (own.version, own.name):
            raise UnsafeDatabase(
                f"The database has migration {name}, which this version of Paydesk does not have at that position."
                " It belongs to another version: run that version or a newer one."
            )
        if own is None and _numbers(runs_with) > _numbers(__version__):
            raise UnsafeDatabase(
                f"The database has migration {name}, on which Paydesk {runs_with} and newer versions run. This is"
                f" {__version__}: run {runs_with} or a newer version."
            )
        if own is not None and checksum != own.checksum:
            raise UnsafeDatabase(f"Migration {name} was changed after it was applied. Restore the original file.")
    return State(expected[len(history) :], tuple(name for _, name, *_ in history[len(expected) :]))


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version. A pre-release or a build counts as its release, whose migrations it has."""
    return tuple(map(int, re.split(r"[^\d.]", version, maxsplit=1)[0].strip(".").split(".")))


async def _columns(tx: Transaction, database_name: str, table: str) -> frozenset[str]:
    """Return the columns of the history: none if nothing was applied yet."""
    return frozenset(name for (name,) in await tx.all(_COLUMNS[database_name], table))


async def _history(tx: Transaction, columns: frozenset[str], table: str) -> list[Row]:
    """Return version, name, checksum and `runs_with` of each applied migration, the last one None without its column.

    Raises `UnsafeDatabase` for a pre-release history.
    """
    if not columns:
        return []
    runs_with = "runs_with" if "runs_with" in columns else "NULL"
    history = await tx.all(f"SELECT version, name, checksum, {runs_with} FROM {table} ORDER BY version")
    if history and history[0][1] == _PRE_RELEASE:
        raise UnsafeDatabase(
            "This database was created by a pre-release version of Paydesk and cannot be migrated. Start with a new"
            " database, or run the version that created this one."
        )
    return history
