"""Migrations: in order, once, all of a file or nothing of it, and never over a history that is not ours."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from pathlib import Path

import apsw
import asyncpg
import pytest

import bare_order
from paydesk.storage.connect import open_database
from paydesk.storage.database import Database, UnsafeDatabase
from paydesk.storage.migrate import Migration, migrate, pending, shipped

FIRST = shipped()
MORE = (*FIRST, Migration(9001, "9001_more.sql", "CREATE TABLE more (id bigint); INSERT INTO more VALUES (1);"))


async def test_a_migrated_database_has_nothing_pending(database: Database) -> None:
    """What was applied is not applied again."""
    assert await pending(database) == []
    assert await migrate(database, 1) == []


async def test_what_is_new_is_applied(database: Database) -> None:
    """A newer version finds its own migrations pending and applies them."""
    assert await pending(database, MORE) == ["9001_more.sql"]
    assert await migrate(database, 1, MORE) == ["9001_more.sql"]
    assert await pending(database, MORE) == []
    assert await database.read(lambda tx: tx.all("SELECT id FROM more")) != []


async def test_a_migration_that_fails_leaves_nothing(database: Database) -> None:
    """A file is applied whole or not at all."""
    broken = (*FIRST, Migration(9001, "9001_broken.sql", "CREATE TABLE more (id bigint); SELECT id FROM nowhere"))
    with pytest.raises(Exception, match="nowhere"):
        await migrate(database, 1, broken)
    assert await migrate(database, 1, MORE) == ["9001_more.sql"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_what_the_first_version_wrote_is_kept(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """Through all migrations, and what no version may write is refused afterwards as it was before."""
    url = f"sqlite:{tmp_path}/paydesk.db"
    if kind == "postgres":
        url = request.getfixturevalue("postgres_server").create_database(f"first_{secrets.token_hex(6)}")
    database = await open_database(url)
    await migrate(database, 1, FIRST[:1])
    for state in ("created", "refunded"):
        await database.write(partial(bare_order.insert, order_id=f"ORD-{state}", state=(state,) * 3))
    before = await database.read(lambda tx: tx.all("SELECT * FROM orders ORDER BY order_id"))
    assert len(before) == 2
    await migrate(database, 1)
    after = await database.read(lambda tx: tx.all("SELECT * FROM orders ORDER BY order_id"))
    assert [tuple(row)[: len(before[0])] for row in after] == [tuple(row) for row in before]
    with pytest.raises((apsw.ConstraintError, asyncpg.CheckViolationError), match="orders_state"):
        await database.write(partial(bare_order.insert, order_id="ORD-lost", state=("lost",) * 3))
    await database.close()


async def test_a_changed_migration_is_refused(database: Database) -> None:
    """A file that was changed after it was applied is named."""
    changed = (Migration(FIRST[0].version, FIRST[0].name, FIRST[0].script + "-- changed"), *FIRST[1:])
    for run in (migrate(database, 1, changed), pending(database, changed)):
        with pytest.raises(UnsafeDatabase, match=f"{FIRST[0].name} was changed"):
            await run


async def test_an_unknown_history_is_refused(database: Database) -> None:
    """A database of a newer version is left alone."""
    await migrate(database, 1, MORE)
    with pytest.raises(UnsafeDatabase, match=r"9001_more\.sql"):
        await migrate(database, 1)


async def test_an_inserted_migration_is_refused(database: Database) -> None:
    """Nothing is squeezed in before what was applied."""
    squeezed = (Migration(0, "0000_before.sql", "SELECT 1"), *FIRST)
    with pytest.raises(UnsafeDatabase, match=FIRST[0].name):
        await migrate(database, 1, squeezed)


async def test_nodes_that_start_together_migrate_once(postgres_url: str) -> None:
    """One node migrates, the others wait and find it done."""
    nodes = [await open_database(postgres_url) for _ in range(4)]
    applied = await asyncio.gather(*(migrate(node, 1, MORE) for node in nodes))
    assert sorted(applied) == [[], [], [], ["9001_more.sql"]]
    for node in nodes:
        await node.close()


async def test_every_table_is_strict(sqlite_url: str) -> None:
    """SQLite refuses a value of another type than its column's."""
    database = await open_database(sqlite_url)
    tables = await database.read(lambda tx: tx.all("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'"))
    assert [name for name, is_strict in tables if not is_strict and not name.startswith("sqlite_")] == []
    assert len(tables) > 20
    await database.close()
