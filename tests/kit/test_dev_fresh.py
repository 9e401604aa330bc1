"""`paydesk dev --fresh` removes a development database and its journals, and refuses every other database."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import apsw
import pytest

from command_line import command
from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage import mark
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import UnsafeDatabase
from paydesk.platform.storage.migrate import migrate, shipped
from paydesk_dev.dev import fresh
from paydesk_process import Dev, credentials, dev, request

STORE = "INSERT INTO stores (seller_id, store_id, name, created_ms) VALUES (1, 2, 'Shop', 3)"
FOREIGN = "CREATE TABLE ledger (amount bigint)"


async def prepared(url: str, kind: mark.Kind | None, *statements: str) -> None:
    """Mark the migrated database, and run the statements."""
    database = await open_database(url)
    if kind is not None:
        await mark.find_or_set(database, kind, 1)
    for statement in statements:
        await database.write(lambda tx, sql=statement: tx.run(sql))  # type: ignore[misc]
    await database.close()


async def stores(url: str) -> int | None:
    """Return the number of stores, None without the table."""
    database = await open_database(url)
    tables = {row[0] for row in await database.read(lambda tx: tx.all(fresh.TABLES[database.name]))}
    found = await database.read(lambda tx: tx.one("SELECT COUNT(*) FROM stores")) if "stores" in tables else None
    await database.close()
    return None if found is None else int(found[0])


def journal(folder: Path) -> Path:
    """Write a journal, and return its path."""
    file = folder / "terminals" / "1" / "T.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    return file


@pytest.mark.on_postgres
async def test_development_database_is_removed(database_url: str, tmp_path: Path) -> None:
    """With the journals; it can be migrated anew, and is empty then. A second time nothing is left to remove."""
    await prepared(database_url, "development", STORE)
    file, settings = journal(tmp_path), Settings(database_url=database_url)
    await fresh.remove(settings, tmp_path)
    assert await stores(database_url) is None
    assert not file.exists()
    await fresh.remove(settings, tmp_path)
    database = await open_database(database_url)
    assert len(await migrate(database, 1)) == len(shipped())
    assert await mark.find(database) is None
    await database.close()
    assert await stores(database_url) == 0


@pytest.mark.parametrize(("kind", "message"), [("production", "is for production"), (None, "has data but no mark")])
async def test_other_databases_are_refused(
    database_url: str, tmp_path: Path, kind: mark.Kind | None, message: str
) -> None:
    """For production, or without a mark and with rows; the journals stay, too."""
    await prepared(database_url, kind, STORE)
    file = journal(tmp_path)
    with pytest.raises(StartRefused, match=message):
        await fresh.remove(Settings(database_url=database_url), tmp_path)
    assert await stores(database_url) == 1
    assert file.exists()


@pytest.mark.on_postgres
async def test_empty_database_without_a_mark_is_accepted(database_url: str, tmp_path: Path) -> None:
    """It stays as it is."""
    await fresh.remove(Settings(database_url=database_url), tmp_path)
    assert await stores(database_url) == 0


async def test_tables_of_other_programs_stay(postgres_url: str, tmp_path: Path) -> None:
    """On PostgreSQL; rows in them do not count as data."""
    await prepared(postgres_url, None, FOREIGN, "INSERT INTO ledger VALUES (1)")
    await fresh.remove(Settings(database_url=postgres_url), tmp_path)
    await prepared(postgres_url, "development")
    await fresh.remove(Settings(database_url=postgres_url), tmp_path)
    database = await open_database(postgres_url)
    tables = "SELECT CAST(tablename AS text) FROM pg_tables WHERE schemaname = 'public'"
    assert await database.read(lambda tx: tx.all(tables)) == [("ledger",)]
    await database.close()


async def test_file_of_another_program_is_refused(tmp_path: Path) -> None:
    """A SQLite file with rows of other tables."""
    file = tmp_path / "other.db"
    connection = apsw.Connection(str(file))
    connection.execute(f"{FOREIGN}; INSERT INTO ledger VALUES (1)")
    connection.close()
    with pytest.raises(StartRefused, match="has data but no mark"):
        await fresh.remove(Settings(database_url=f"sqlite:{file}"), tmp_path)
    assert file.stat().st_size > 0


async def test_database_in_use_is_refused(database_url: str, tmp_path: Path) -> None:
    """By the lock of the file, or because Paydesk is connected to the server."""
    await prepared(database_url, "development", STORE)
    service = await open_database(database_url)
    await service.read(lambda tx: tx.one("SELECT 1"))
    with pytest.raises((StartRefused, UnsafeDatabase), match=r"in use by another|Another Paydesk process"):
        await fresh.remove(Settings(database_url=database_url), tmp_path)
    await service.close()
    assert await stores(database_url) == 1


@pytest.mark.on_postgres
async def test_database_of_another_version_is_removed(database_url: str, tmp_path: Path) -> None:
    """Its history is not that of this version, so that it could not be opened."""
    await prepared(database_url, "development", "UPDATE schema_migrations SET checksum = 'other'")
    await fresh.remove(Settings(database_url=database_url), tmp_path)
    assert await stores(database_url) is None


async def test_log_that_a_crash_left_is_ignored(sqlite_url: str, tmp_path: Path) -> None:
    """The process was killed after it had deleted the file, before it deleted the log."""
    file = Path(sqlite_url.partition(":")[2])
    await prepared(sqlite_url, "development")
    database = await open_database(sqlite_url)
    await database.write(lambda tx: tx.run(STORE))
    log = file.with_name(f"{file.name}-wal")
    shutil.copy(log, tmp_path / "log")
    await database.close()
    file.unlink()  # noqa: ASYNC240 - nothing else runs
    shutil.copy(tmp_path / "log", log)
    await fresh.remove(Settings(database_url=sqlite_url), tmp_path)
    database = await open_database(sqlite_url)
    await migrate(database, 1)
    await database.close()
    assert await stores(sqlite_url) == 0


async def test_other_files_in_the_data_folder_stay(sqlite_url: str, tmp_path: Path) -> None:
    """The folder may be one of a project that has a folder `terminals` of its own, or links to elsewhere."""
    file, elsewhere = journal(tmp_path), tmp_path / "elsewhere"
    others = [tmp_path / "terminals" / "README", file.parent / "notes.txt", tmp_path / "terminals" / "src" / "T.json"]
    for other in (*others, elsewhere / "T.json"):
        other.parent.mkdir(exist_ok=True)
        other.write_text("{}")
    (tmp_path / "terminals" / "2").symlink_to(elsewhere)
    await fresh.remove(Settings(database_url=sqlite_url), tmp_path)
    assert not file.exists()
    assert all(other.exists() for other in (*others, elsewhere / "T.json"))


async def test_folder_of_journals_that_is_a_link_stays(sqlite_url: str, tmp_path: Path) -> None:
    """What it leads to may belong to another service."""
    file = journal(tmp_path / "elsewhere")
    (tmp_path / "terminals").symlink_to(file.parent.parent)
    await fresh.remove(Settings(database_url=sqlite_url), tmp_path)
    assert file.exists()


async def test_file_in_use_is_refused_under_another_name(tmp_path: Path) -> None:
    """A link has the lock of the file that it leads to, whichever of the two names the service uses."""
    file, link = tmp_path / "real.db", tmp_path / "link.db"
    link.symlink_to(file)
    database = await open_database(f"sqlite:{link}")
    await migrate(database, 1)
    await database.close()
    await prepared(f"sqlite:{file}", "development", STORE)
    for used, named in ((file, link), (link, file)):
        service = await open_database(f"sqlite:{used}")
        with pytest.raises(UnsafeDatabase, match="in use by another"):
            await fresh.remove(Settings(database_url=f"sqlite:{named}"), tmp_path)
        with pytest.raises(UnsafeDatabase, match="in use by another"):
            await open_database(f"sqlite:{named}")
        await service.close()
    assert await stores(f"sqlite:{file}") == 1
    await fresh.remove(Settings(database_url=f"sqlite:{link}"), tmp_path)
    assert not file.exists()


async def test_tables_of_another_schema_stay(postgres_url: str, tmp_path: Path) -> None:
    """On PostgreSQL: the search path has a schema of another program, with a table that this version has too."""
    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}search_path=own,public"
    statements = ("CREATE SCHEMA own", "DROP TABLE attempts")
    await prepared(postgres_url, "development", *statements)
    moved = await open_database(postgres_url)
    for table in await moved.read(lambda tx: tx.all(fresh.TABLES["postgres"])):
        if not table[0].startswith(("pg_", "sql_")):
            await moved.write(lambda tx, name=table[0]: tx.run(f"ALTER TABLE {name} SET SCHEMA own"))  # type: ignore[misc]
    await moved.write(lambda tx: tx.run("CREATE TABLE public.attempts (climber text)"))
    await moved.close()
    await fresh.remove(Settings(database_url=url), tmp_path)
    database = await open_database(postgres_url)
    tables = "SELECT CAST(tablename AS text) FROM pg_tables WHERE schemaname IN ('public', 'own')"
    assert await database.read(lambda tx: tx.all(tables)) == [("attempts",)]
    await database.close()


@pytest.mark.long("starts the service three times")
def test_dev_starts_anew(tmp_path: Path) -> None:
    """With the same server keys, new demo data and working credentials; other fields of the file stay."""
    keys = tmp_path / ".paydesk" / "keys.json"
    with dev(tmp_path, "--fresh") as running:
        assert command("pay", "1.00", folder=tmp_path).returncode == 0
        before, key_file = credentials(tmp_path), keys.read_bytes()
        beside = command("dev", "--port", "0", "--fresh", folder=tmp_path)
        assert (beside.returncode, "in use by another Paydesk process" in beside.stderr) == (1, True)
        assert command("pay", "1.00", folder=tmp_path).returncode == 0
        running.end()
    file = tmp_path / ".paydesk" / "credentials.json"
    file.write_text(json.dumps({**before, "listen_secret": "whsec_kept", "webhook": {**before["webhook"], "own": 1}}))
    with dev(tmp_path, "--fresh"):
        after = credentials(tmp_path)
        assert keys.read_bytes() == key_file
        assert after["client_id"] != before["client_id"]
        assert (after["listen_secret"], after["webhook"]["own"]) == ("whsec_kept", 1)
        assert json.loads(command("orders", "list", "--json", folder=tmp_path).stdout) == []
        assert command("pay", "1.00", folder=tmp_path).returncode == 0
        (seller,) = (tmp_path / ".paydesk" / "terminals").iterdir()
        assert seller.name == str(after["seller"]["user_id"])


def test_dev_refuses_a_production_database(tmp_path: Path) -> None:
    """Exit code 1, and the file stays as it is."""
    url = f"sqlite:{tmp_path / 'p.db'}"
    assert command("migrate", folder=tmp_path, PAYDESK_DATABASE_URL=url).returncode == 0
    made = command("operators", "create", "--name", "ana", folder=tmp_path, PAYDESK_DATABASE_URL=url)
    assert made.returncode == 0, made.stderr
    content = (tmp_path / "p.db").read_bytes()
    refused = Dev(tmp_path, "--port", "0", "--fresh", PAYDESK_DATABASE_URL=url)
    try:
        assert refused.process.wait(30) == 1
    finally:
        refused.close()
    assert "`--fresh` does not remove it" in "".join(refused.errors)
    assert (tmp_path / "p.db").read_bytes() == content


def test_clock_beyond_the_tokens_renews_the_file(tmp_path: Path) -> None:
    """The command says so, and only then; the new tokens work, and the earlier ones have expired."""
    with dev(tmp_path):
        before = credentials(tmp_path)
        file = tmp_path / ".paydesk" / "credentials.json"
        file.write_text(json.dumps({**before, "listen_secret": "whsec_kept"}))
        early = command("clock", "advance", "179d", folder=tmp_path)
        assert (early.returncode, early.stderr) == (0, "")
        late = command("clock", "advance", "2d", folder=tmp_path)
        assert late.returncode == 0
        assert "had expired by this time. The file has new ones" in late.stderr
        after = credentials(tmp_path)
        assert {**after, "test": 0, "live": 0} == {**before, "listen_secret": "whsec_kept", "test": 0, "live": 0}
        url = f"{before['base_url']}/terminals/v1/list"
        for mode in ("test", "live"):
            assert request("GET", url, before[mode]["access_token"])[0] == 401
            assert request("GET", url, after[mode]["access_token"])[0] == 200
        moved = json.loads(command("clock", "advance", "181d", "--json", folder=tmp_path).stdout)
        assert Path(moved["renewed_credentials"]).samefile(file)
        assert "renewed_credentials" not in json.loads(command("clock", "show", "--json", folder=tmp_path).stdout)
        assert command("pay", "1.00", folder=tmp_path).returncode == 0
        wiped = command("reset", folder=tmp_path)
        assert (wiped.returncode, "--yes" in wiped.stderr) == (2, True)
        assert json.loads(command("orders", "list", "--json", folder=tmp_path).stdout) != []
        assert json.loads(command("reset", "--yes", "--json", folder=tmp_path).stdout) == {"reset": True}
        assert json.loads(command("orders", "list", "--json", folder=tmp_path).stdout) == []
        assert command("pay", "1.00", folder=tmp_path).returncode == 0
        checked = command("doctor", "--invariants", folder=tmp_path,
                          PAYDESK_DATABASE_URL=f"sqlite:{tmp_path / '.paydesk' / 'paydesk.db'}")  # fmt: skip
        assert (checked.returncode, checked.stdout) == (0, "No problems found.\n")
