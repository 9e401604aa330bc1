"""A database is for development or for production from its first command on: `dev` and `serve` refuse each other's."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import pytest

from command_line import command
from paydesk.platform.process.node import StartRefused
from paydesk.platform.storage import mark
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database
from paydesk.service.serve import check_database
from paydesk_dev.dev import service as development
from paydesk_process import dev
from postgres_server import PostgresServer

NOW_MS = 1_800_000_000_000


@pytest.mark.on_postgres
async def test_first_command_marks_a_database(database: Database) -> None:
    """A database without a mark gets one from the first that opens it, and keeps it."""
    assert await mark.find(database) is None
    await check_database(database, NOW_MS)
    assert await mark.find(database) == "production"
    await check_database(database, NOW_MS)
    with pytest.raises(StartRefused, match="This database is for production"):
        await development.prepare(database, NOW_MS)


@pytest.mark.on_postgres
async def test_dev_marks_a_database(database: Database) -> None:
    """`serve` refuses it from then on; `dev` goes on with it."""
    for _ in range(2):
        await development.prepare(database, NOW_MS)
    with pytest.raises(StartRefused, match="`paydesk dev` created this database"):
        await check_database(database, NOW_MS)
    assert await mark.find(database) == "development"


@pytest.mark.on_postgres
async def test_dev_refuses_before_it_migrates(database: Database) -> None:
    """A database for production that lacks migrations is left as it is."""
    await check_database(database, NOW_MS)
    await database.write(lambda tx: tx.run("DELETE FROM schema_migrations"))
    with pytest.raises(StartRefused, match="This database is for production"):
        await development.prepare(database, NOW_MS)
    assert await database.read(lambda tx: tx.all("SELECT version FROM schema_migrations")) == []


async def test_two_first_commands_agree(postgres_url: str) -> None:
    """`dev` and `serve` at once on a new database: one of them has it, the other is refused."""
    databases = [await open_database(postgres_url) for _ in range(8)]
    works = [(development.prepare, check_database)[number % 2](one, NOW_MS) for number, one in enumerate(databases)]
    results = await asyncio.gather(*works, return_exceptions=True)
    kind = await mark.find(databases[0])
    refused = [isinstance(result, StartRefused) for result in results]
    assert refused == [kind == "production", kind == "development"] * 4
    for one in databases:
        await one.close()


@pytest.mark.on_postgres
def test_migrate_and_operators_create_make_databases_of_production(database_url: str, tmp_path: Path) -> None:
    """Either may be the first; `dev` refuses the database afterwards, with what to do."""
    for arguments in (("migrate",), ("operators", "create", "--name", "ana")):
        done = command(*arguments, folder=tmp_path, PAYDESK_DATABASE_URL=database_url)
        assert done.returncode == 0, done.stderr
        refused = command("dev", "--port", "0", folder=tmp_path, PAYDESK_DATABASE_URL=database_url)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "This database is for production" in refused.stderr
        assert "PAYDESK_DATABASE_URL" in refused.stderr


def test_dev_makes_a_database_of_development(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """Also a PostgreSQL one that was empty; `serve` refuses it, and `migrate` does not change what it is for."""
    url = postgres_server.create_database(f"empty_{secrets.token_hex(6)}")
    with dev(tmp_path, PAYDESK_DATABASE_URL=url):
        pass
    assert command("keys", "add", folder=tmp_path).returncode == 0
    variables = {"PAYDESK_DATABASE_URL": url, "PAYDESK_PUBLIC_URL": "https://pay.example.com"}
    assert command("migrate", folder=tmp_path, **variables).returncode == 0
    refused = command("serve", folder=tmp_path, **variables)
    assert refused.returncode == 1
    assert "`paydesk dev` created this database" in refused.stderr
    assert "Traceback" not in refused.stderr
