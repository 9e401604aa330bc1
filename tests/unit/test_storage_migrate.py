"""Migrations are applied in order, once, each file completely, and never to an unknown history."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

import apsw
import asyncpg
import pytest

import bare_order
from paydesk import __version__
from paydesk.platform.storage import migrate as module
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, UnsafeDatabase
from paydesk.platform.storage.migrate import FIRST_AWARE, Migration, migrate, pending, shipped
from paydesk.platform.storage.statements import built_concurrently
from paydesk_dev.dev.fresh import KITS_HISTORY, MIGRATIONS
from tables import each

FIRST = shipped()
SCRIPT = "CREATE TABLE more (id bigint); INSERT INTO more VALUES (1);"
MORE = (*FIRST, Migration(9001, "9001_more.sql", f"-- runs with {__version__}\n{SCRIPT}"))
BEFORE_THE_RULE = (*(one.name for one in FIRST[:12]), "0001_taken_over.sql")
"""The files without a line `-- runs with`: their bytes do not change any more."""
DIGESTS = Path(__file__).with_name("migrations.json")
"""The digests of the files that were released; a release adds its own."""
HISTORY = "SELECT name, runs_with FROM {} ORDER BY version"


@pytest.mark.on_postgres
async def test_a_migrated_database_has_nothing_pending(database: Database) -> None:
    """Applied migrations are not applied again."""
    assert await pending(database) == []
    assert await migrate(database, 1) == []


@pytest.mark.on_postgres
async def test_new_migrations_are_applied(database: Database) -> None:
    """A newer version finds its own migrations pending and applies them."""
    assert await pending(database, MORE) == ["9001_more.sql"]
    assert await migrate(database, 1, MORE) == ["9001_more.sql"]
    assert await pending(database, MORE) == []
    assert await database.read(lambda tx: tx.all("SELECT id FROM more")) != []


@pytest.mark.on_postgres
async def test_a_failed_migration_leaves_no_changes(database: Database) -> None:
    """A file is applied completely or not at all."""
    broken = (*FIRST, Migration(9001, "9001_broken.sql", "CREATE TABLE more (id bigint); SELECT id FROM nowhere"))
    with pytest.raises(Exception, match="nowhere"):
        await migrate(database, 1, broken)
    assert await migrate(database, 1, MORE) == ["9001_more.sql"]


@pytest.mark.on_postgres
async def test_an_order_in_an_unknown_state_is_refused(database: Database) -> None:
    """The table's constraint admits the states of the transition table only."""
    for state in ("created", "refunded"):
        await database.write(partial(bare_order.insert, order_id=f"ORD-{state}", state=(state,) * 3))
    with pytest.raises((apsw.ConstraintError, asyncpg.CheckViolationError), match="orders_state"):
        await database.write(partial(bare_order.insert, order_id="ORD-lost", state=("lost",) * 3))


@pytest.mark.on_postgres
async def test_a_pre_release_database_is_refused(database: Database) -> None:
    """The message says what happened and what to do, whichever function reads the history first."""
    await database.write(lambda tx: tx.run("UPDATE schema_migrations SET name = '0001_initial.sql' WHERE version = 1"))
    for run in (migrate(database, 1), pending(database), module.state(database)):
        with pytest.raises(UnsafeDatabase, match=r"pre-release version of Paydesk .* Start with a new database"):
            await run


@pytest.mark.on_postgres
async def test_a_changed_migration_is_refused(database: Database) -> None:
    """The error names the file."""
    changed = (Migration(FIRST[0].version, FIRST[0].name, FIRST[0].script + "-- changed"), *FIRST[1:])
    for run in (migrate(database, 1, changed), pending(database, changed)):
        with pytest.raises(UnsafeDatabase, match=f"{FIRST[0].name} was changed"):
            await run


@pytest.mark.on_postgres
async def test_a_newer_database_is_refused_by_a_version_that_may_not_run_on_it(database: Database) -> None:
    """It is not touched; the message names the migration and the version to run."""
    await migrate(database, 1, (*FIRST, Migration(9001, "9001_more.sql", f"-- runs with 999.0.0\n{SCRIPT}")))
    for run in (migrate(database, 1), pending(database)):
        with pytest.raises(UnsafeDatabase, match=r"has migration 9001_more\.sql, on which .* run 999\.0\.0 or a newer"):
            await run


@pytest.mark.on_postgres
async def test_a_newer_database_is_accepted_by_a_version_that_may_run_on_it(database: Database) -> None:
    """It has nothing to migrate."""
    await migrate(database, 1, MORE)
    assert await pending(database) == []
    assert await migrate(database, 1) == []
    assert await module.state(database) == ((), ("9001_more.sql",))


@pytest.mark.on_postgres
async def test_a_later_migration_of_an_unknown_version_is_refused(database: Database) -> None:
    """What was applied by a program that does not say which versions may run on it."""
    await migrate(database, 1, MORE)
    await database.write(lambda tx: tx.run("UPDATE schema_migrations SET runs_with = NULL WHERE version = 9001"))
    with pytest.raises(UnsafeDatabase, match=r"9001_more\.sql, which this version of Paydesk does not have"):
        await migrate(database, 1)


@each(
    "own, runs_with, may_run",
    [
        ("0.2.0", "0.2.0", True),
        ("0.10.0", "0.9.1", True),
        ("0.9.1", "0.10.0", False),
        ("1.0.0", "0.10.0", True),
        ("0.3.0rc1", "0.3.0", True),
        ("0.3.0.dev4+g5f0c3ad-dirty", "0.3.0", True),
        ("0.2.9", "0.3.0", False),
    ],
)
def test_versions_are_compared_by_their_numbers(own: str, runs_with: str, *, may_run: bool) -> None:
    """A pre-release or a build counts as its release."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "__version__", own)
        later = [(9001, "9001_more.sql", "", runs_with)]
        try:
            assert module._compared(later, ()).newer == ("9001_more.sql",)
            assert may_run
        except UnsafeDatabase:
            assert not may_run


@pytest.mark.on_postgres
async def test_a_history_of_earlier_versions_gets_the_column(database: Database) -> None:
    """Paydesk's own and the kit's; until then the service starts, and a migration of an earlier version is no loss."""
    for table, migrations in (("schema_migrations", FIRST), (KITS_HISTORY, shipped(MIGRATIONS))):
        await migrate(database, 1, migrations, table)
        await database.write(lambda tx, table=table: tx.run(f"ALTER TABLE {table} DROP COLUMN runs_with"))  # type: ignore[misc]
        assert await module.state(database, migrations, table) == ((), ())
        assert await migrate(database, 1, migrations, table) == []
        rows = await database.read(lambda tx, table=table: tx.all(HISTORY.format(table)))  # type: ignore[misc]
        assert [tuple(row) for row in rows] == [(one.name, one.runs_with) for one in migrations]


def test_a_migration_says_with_which_versions_it_runs() -> None:
    """In its first line, except those before the rule. Outside a transaction there is nothing but indexes."""
    for one in (*FIRST, *shipped(MIGRATIONS)):
        assert one.script.startswith("-- runs with ") == (one.name not in BEFORE_THE_RULE), one.name
        assert one.name in BEFORE_THE_RULE or module._RUNS_WITH.match(one.script), one.name
        assert one.name in BEFORE_THE_RULE or module._numbers(one.runs_with) <= module._numbers(__version__), one.name
        assert one.runs_with == FIRST_AWARE or one.name not in BEFORE_THE_RULE
        assert not one.is_outside_transaction or all(map(built_concurrently, one.statements)), one.name


def test_released_migrations_are_as_they_were_released() -> None:
    """Databases have their checksums: a file that was changed would be refused everywhere."""
    released = json.loads(DIGESTS.read_text())
    assert len(released) >= len(BEFORE_THE_RULE)
    assert {one.name: one.checksum for one in (*FIRST, *shipped(MIGRATIONS)) if one.name in released} == released


@pytest.mark.on_postgres
async def test_an_inserted_migration_is_refused(database: Database) -> None:
    """No migration is inserted before an applied one."""
    inserted = (Migration(0, "0000_before.sql", "SELECT 1"), *FIRST)
    with pytest.raises(UnsafeDatabase, match=FIRST[0].name):
        await migrate(database, 1, inserted)


async def test_nodes_that_start_together_migrate_once(postgres_url: str) -> None:
    """One node migrates; the others wait and find nothing pending."""
    nodes = [await open_database(postgres_url) for _ in range(4)]
    applied = await asyncio.gather(*(migrate(node, 1, MORE) for node in nodes))
    assert sorted(applied) == [[], [], [], ["9001_more.sql"]]
    for node in nodes:
        await node.close()


async def test_every_table_is_strict(sqlite_url: str) -> None:
    """SQLite refuses a value of a type other than its column's."""
    database = await open_database(sqlite_url)
    tables = await database.read(lambda tx: tx.all("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'"))
    assert [name for name, is_strict in tables if not is_strict and not name.startswith("sqlite_")] == []
    assert len(tables) > 20
    await database.close()
