"""A database that a test had is as good as new when the next one gets it."""

from __future__ import annotations

import urllib.parse

import asyncpg
import pytest

from postgres_server import PostgresServer
from tables import each

SELLERS = """
INSERT INTO sellers SELECT n, 'ana' || n, 'Ana', 'BRA', 'BRL', '', NULL, 1 FROM generate_series(1, 10000) AS n"""
ROWS = "SELECT pg_relation_size('sellers'), (SELECT count(*) > 0 FROM schema_migrations)"


async def test_it_is_emptied(postgres_server: PostgresServer, migrated_postgres: str) -> None:
    """Clients left from its last use are disconnected and don't find it."""
    url = postgres_server.fresh_database(migrated_postgres)
    left = await asyncpg.connect(url)
    await left.execute(SELLERS)
    number = _number(postgres_server, url)
    postgres_server.give_back(url, migrated_postgres)
    again = postgres_server.fresh_database(migrated_postgres)
    assert _number(postgres_server, again) == number
    assert left.is_closed() or await _is_cut_off(left)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(url)
    raw = await asyncpg.connect(again)
    assert tuple(await raw.fetchrow(ROWS)) == (0, True)
    await raw.close()
    postgres_server.give_back(again, migrated_postgres)


async def _is_cut_off(left: asyncpg.Connection) -> bool:
    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.AdminShutdownError)):
        await left.fetch("SELECT 1")
    return True


@each(
    "changed",
    ["CREATE TABLE further (number int)", "ALTER TABLE orders ADD COLUMN further int",
     "ALTER TABLE orders SET UNLOGGED", "ALTER TABLE orders ALTER COLUMN live DROP NOT NULL",
     "DROP INDEX orders_searched", "CREATE SEQUENCE further",
     "CREATE FUNCTION further() RETURNS int LANGUAGE sql AS 'SELECT 1'",
     "DELETE FROM schema_migrations WHERE version = 1", "ANALYZE schema_migrations",
     "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$",
     "VACUUM orders"],
)  # fmt: skip
async def test_it_is_dropped_once_it_differs(
    postgres_server: PostgresServer, migrated_postgres: str, changed: str
) -> None:
    """In anything but its rows."""
    url = postgres_server.fresh_database(migrated_postgres)
    raw = await asyncpg.connect(url)
    await raw.execute(changed)
    await raw.close()
    number = _number(postgres_server, url)
    postgres_server.give_back(url, migrated_postgres)
    assert not postgres_server.sql(f"SELECT datname FROM pg_database WHERE oid = {number}")


def _number(postgres_server: PostgresServer, url: str) -> int:
    """The server's own number of the database, which stays when it is renamed."""
    name = urllib.parse.urlsplit(url).path[1:]
    return int(postgres_server.sql(f"SELECT oid FROM pg_database WHERE datname = '{name}'"))
