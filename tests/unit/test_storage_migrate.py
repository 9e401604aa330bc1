"""Migrations are applied in order, once, each file completely, and never to an unknown history."""

from __future__ import annotations

import asyncio
from functools import partial

import apsw
import asyncpg
import pytest

import bare_order
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, UnsafeDatabase
from paydesk.platform.storage.migrate import Migration, behind, migrate, pending, shipped

FIRST = shipped()
MORE = (*FIRST, Migration(9001, "9001_more.sql", "CREATE TABLE more (id bigint); INSERT INTO more VALUES (1);"))


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
    for run in (migrate(database, 1), pending(database), behind(database)):
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
async def test_an_unknown_history_is_refused(database: Database) -> None:
    """A database of a newer version is not touched."""
    await migrate(database, 1, MORE)
    with pytest.raises(UnsafeDatabase, match=r"9001_more\.sql"):
        await migrate(database, 1)


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
