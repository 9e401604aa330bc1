"""A migration on PostgreSQL waits 5 s for a lock, names the session that has it, and can be repeated after any end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import pytest

from paydesk.platform.storage import locks
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Locked
from paydesk.platform.storage.migrate import Migration, migrate, pending, shipped
from waiting import until_found

FIRST = shipped()
ADDS_A_TABLE = Migration(9001, "9001_table.sql", "CREATE TABLE more (id bigint)")
ALTERS = (*FIRST, ADDS_A_TABLE, Migration(9002, "9002_column.sql", "ALTER TABLE orders ADD COLUMN till text"))
INDEX = (
    "-- runs with 0.2.0\n-- By what a person types.\nCREATE INDEX CONCURRENTLY orders_by_text ON orders (description)"
)
BUILDS = (*FIRST, Migration(9001, "9001_index.sql", INDEX))
IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('orders_by_text')"
BUILDER = (
    "SELECT pid FROM pg_stat_activity WHERE query LIKE '%CREATE INDEX CONCURRENTLY%' AND wait_event = 'virtualxid'"
)
OID = "SELECT CAST(to_regclass('orders_by_text') AS oid)"
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1 FROM orders"
SECRET = "APP_USR-4111111111111111"


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAIT_SECONDS", 1.0)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Database]:
    database = await open_database(url)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def _session(url: str, *statements: str) -> AsyncIterator[asyncpg.Connection]:
    """A session of another program that has run these statements."""
    connection = await asyncpg.connect(url, server_settings={"application_name": "nightly report"})
    try:
        for statement in statements:
            await connection.execute(statement)
        yield connection
    finally:
        await connection.close()


async def test_a_lock_that_another_session_keeps_is_not_waited_for(postgres_url: str) -> None:
    """The message names it, with nothing of its values; what waited is rolled back, and succeeds later."""
    query = (
        f"SELECT order_id FROM orders WHERE external_reference = '{SECRET}' /* {SECRET} */ AND amount_minor > 4111111"
    )
    async with _opened(postgres_url) as database:
        async with _session(postgres_url, "BEGIN", "LOCK TABLE orders IN ACCESS SHARE MODE", query) as other:
            with pytest.raises(Locked) as refused:
                await migrate(database, 1, ALTERS)
            pid = other.get_server_pid()
        message = str(refused.value)
        assert f"pid {pid} (nightly report, idle in transaction, since 20" in message
        assert "UTC): SELECT order_id FROM orders WHERE external_reference = ? AND amount_minor > ?. " in message
        assert SECRET not in message
        assert await pending(database, ALTERS) == ["9002_column.sql"]
        assert await migrate(database, 1, ALTERS) == ["9002_column.sql"]


async def test_another_migration_is_not_waited_for(postgres_url: str) -> None:
    """A node that migrates for longer is named as any other session."""
    async with (
        _opened(postgres_url) as database,
        _session(postgres_url, "BEGIN", "SELECT pg_advisory_xact_lock(7029116352941)"),
    ):
        with pytest.raises(Locked, match=r"not applied: .*nightly report, .* SELECT pg_advisory_xact_lock\(\?\)\."):
            await migrate(database, 1, ALTERS)


async def test_an_index_is_built_after_any_end_of_an_earlier_run(postgres_url: str) -> None:
    """An invalid one, as a killed run leaves it, is built anew; a valid one, whose run was not recorded, is kept."""
    async with _opened(postgres_url) as database, _session(postgres_url) as other:
        for left in ("nothing", "an invalid index", "a valid index"):
            await other.execute("DELETE FROM schema_migrations WHERE version = 9001")
            if left != "a valid index":
                await other.execute("DROP INDEX IF EXISTS orders_by_text")
            if left == "an invalid index":
                await _build_in_vain(postgres_url, other)
            before = await other.fetchval(OID)
            assert await migrate(database, 1, BUILDS) == ["9001_index.sql"]
            assert await other.fetchval(IS_VALID) is True
            assert (before == await other.fetchval(OID)) == (left == "a valid index"), left
            assert await migrate(database, 1, BUILDS) == []


async def _build_in_vain(url: str, connection: asyncpg.Connection) -> None:
    """Build the index beside an older transaction for too short a time: it is left invalid."""
    async with _session(url, *SNAPSHOT):
        await connection.execute("SET lock_timeout = '20ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await connection.execute(INDEX)
        await connection.execute("RESET lock_timeout")
    assert await connection.fetchval(IS_VALID) is False


async def test_a_build_whose_server_process_dies_is_repeated(postgres_url: str) -> None:
    """While an older transaction lasts the build waits; the run that is tried again drops what the first one left."""
    async with _opened(postgres_url) as database, _session(postgres_url) as admin:
        async with _session(postgres_url, *SNAPSHOT):
            building = asyncio.create_task(migrate(database, 1, BUILDS))
            (builder,) = await until_found(lambda: _pids(admin))
            await admin.execute("SELECT pg_terminate_backend($1)", builder)
            with pytest.raises(Locked, match=r"nightly report, idle in transaction"):
                await building
            assert await admin.fetchval(IS_VALID) is False
        assert await migrate(database, 1, BUILDS) == ["9001_index.sql"]
        assert await admin.fetchval(IS_VALID) is True


async def test_a_build_of_a_killed_command_is_left_to_end(postgres_url: str) -> None:
    """PostgreSQL goes on with it: until it has ended the next run names it, and then finds the index."""
    async with _opened(postgres_url) as database, _session(postgres_url) as admin:
        async with _session(postgres_url, *SNAPSHOT):
            killed = await asyncpg.connect(postgres_url, server_settings={"application_name": "paydesk"})
            building = asyncio.create_task(killed.execute(INDEX))
            await until_found(lambda: _pids(admin))
            killed.terminate()
            await asyncio.wait((building,))
            assert building.exception() is not None
            with pytest.raises(Locked, match=r"\(paydesk, active, since .*: CREATE INDEX CONCURRENTLY orders_by_text"):
                await migrate(database, 1, BUILDS)
        await until_found(lambda: admin.fetchval(IS_VALID))
        assert await migrate(database, 1, BUILDS) == ["9001_index.sql"]


async def _pids(connection: asyncpg.Connection) -> Sequence[int]:
    return [row[0] for row in await connection.fetch(BUILDER)]


async def test_nodes_that_build_together_build_once(postgres_url: str) -> None:
    """One builds the index; the others find it, or give up because of the one that builds."""
    async with _opened(postgres_url) as first, _opened(postgres_url) as second:
        results = await asyncio.gather(
            *(migrate(database, 1, BUILDS) for database in (first, second)), return_exceptions=True
        )
        assert ["9001_index.sql"] in results
        assert await pending(first, BUILDS) == []


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (f"$tag${SECRET}$tag$, c = '{SECRET}", "?"),
        (f"E'a\\'{SECRET}', c = 1", "E?, c = ?"),
        (f"'{SECRET}\\", "?"),
        (f"\"x'y\", c = '{SECRET}'", "?, c = ?"),
    ],
)
def test_values_of_a_query_are_masked(values: str, shown: str) -> None:
    """PostgreSQL keeps 1 KB of a query: it may be cut off anywhere."""
    holder = (7, "", None, "2026-11-27 00:00:00", f"UPDATE a SET b = {values}")
    assert locks._described(holder) == (
        f"pid 7 (no application_name, state unknown, since 2026-11-27 00:00:00 UTC): UPDATE a SET b = {shown}"
    )
