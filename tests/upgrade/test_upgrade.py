"""From the kept version to this one: the version before goes on during a migration, and nothing of its data is lost."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from conftest import first_and_others
from forks import Forks
from paydesk_process import environment
from postgres_server import PostgresServer
from upgrade import kept, planted
from upgrade.versions import Client, Load, Version
from waiting import HANGS_SECONDS

ADDITIVE = """
ALTER TABLE orders ADD COLUMN till text;
CREATE INDEX orders_by_till ON orders (seller_id, till);
CREATE TABLE tills (seller_id bigint NOT NULL, till text NOT NULL, PRIMARY KEY (seller_id, till))"""
"""A migration as it may be."""
BREAKING = {
    "drop a column that is read": "ALTER TABLE orders DROP COLUMN description",
    "rename a column": "ALTER TABLE terminals RENAME COLUMN operating_mode TO mode",
    "add a column that has to be written": (
        "ALTER TABLE orders ADD COLUMN till text NOT NULL DEFAULT ''; ALTER TABLE orders ALTER COLUMN till DROP DEFAULT"
    ),
    "rename a column of a worker": "ALTER TABLE attempts RENAME COLUMN duration_ms TO took_ms",
    "forbid what is written": "ALTER TABLE orders ADD CONSTRAINT never CHECK (status <> 'canceled') NOT VALID",
}
"""Migrations at which the version before fails."""
TEMPLATE = "kept"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """The parent of the processes of the kept version."""
    with _forks("upgrade.before", tmp_path_factory.mktemp("before")) as (forks, version):
        assert version.endswith(f"({kept.commit()})\n")
        yield forks


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """The parent of the processes of this version."""
    with _forks("upgrade.planted", tmp_path_factory.mktemp("after")) as (forks, _):
        yield forks


@contextmanager
def _forks(module: str, folder: Path) -> Iterator[tuple[Forks, str]]:
    """Yield a parent that has imported its version, and what that is."""
    forks, output = Forks(module), folder / "version.txt"
    try:
        assert forks.start(("--version",), environment(), output).wait(HANGS_SECONDS) == 0
        yield forks, output.read_text()
    finally:
        forks.end()


@pytest.fixture
def kept_sqlite(tmp_path: Path) -> str:
    """A copy of the kept SQLite file."""
    file = tmp_path / "kept.db"
    kept.restore_sqlite(file)
    return f"sqlite:{file}"


@pytest.fixture(scope="module")
def kept_template(postgres_server: PostgresServer) -> str:
    """The name of the restored database, from which others are copied."""
    asyncio.run(kept.restore_postgres(postgres_server.create_database(TEMPLATE)))
    return TEMPLATE


@pytest.fixture
def kept_postgres(postgres_server: PostgresServer, kept_template: str) -> Iterator[str]:
    """A copy of the kept PostgreSQL database."""
    name = f"kept_{secrets.token_hex(6)}"
    yield postgres_server.create_database(name, kept_template)
    postgres_server.drop_database(name)


def _migrate(version: Version) -> None:
    migrated = version.run("migrate")
    assert (migrated.returncode, planted.NAME in migrated.stdout) == (0, True), migrated.stdout


def _upgrade_postgres(old: Version, new: Version) -> None:
    """Migrate while the old version serves under load, and serve both versions."""
    client = Client(kept.facts("postgres"))
    old.serves()
    with Load(client, old) as load:
        load.goes_on()
        _migrate(new)
        load.goes_on()
        old.is_ready()
        client.tries(old)
        new.serves()
        new.is_ready()
        load.versions.append(new)
        client.tries(new)
        load.goes_on()
        client.tries(old)
    old.ends()
    _has_everything(new, client)
    new.ends()


def _has_everything(new: Version, client: Client) -> None:
    client.finds(new)
    checked = new.run("doctor", "--invariants")
    assert checked.returncode == 0, checked.stdout


def test_the_version_before_goes_on_beside_the_new_one(
    kept_postgres: str, tmp_path: Path, before: Forks, after: Forks
) -> None:
    """On PostgreSQL no request fails while the database is migrated, and then both versions serve it."""
    old = Version("before", before, kept_postgres, tmp_path)
    new = Version("after", after, kept_postgres, tmp_path, ADDITIVE)
    with closing(old), closing(new):
        _upgrade_postgres(old, new)


def test_the_new_version_goes_on_with_a_file(kept_sqlite: str, tmp_path: Path, before: Forks, after: Forks) -> None:
    """A SQLite file serves one process: the migration is refused until the version before has ended."""
    old = Version("before", before, kept_sqlite, tmp_path)
    new = Version("after", after, kept_sqlite, tmp_path, ADDITIVE)
    client = Client(kept.facts("sqlite"))
    with closing(old), closing(new):
        old.serves()
        client.tries(old)
        with Load(client, old) as load:
            load.goes_on()
            refused = new.run("migrate")
            assert (refused.returncode, "is in use by another Paydesk process" in refused.stdout) == (1, True)
            load.goes_on()
        old.ends()
        _migrate(new)
        new.serves()
        new.is_ready()
        client.tries(new)
        _has_everything(new, client)
        new.ends()


@pytest.mark.parametrize("change", first_and_others(*BREAKING))
def test_a_breaking_migration_is_found(
    change: str, kept_postgres: str, tmp_path: Path, before: Forks, after: Forks
) -> None:
    """The check above fails, and names the version before: a request to it, or an error in its log."""
    old = Version("before", before, kept_postgres, tmp_path)
    new = Version("after", after, kept_postgres, tmp_path, BREAKING[change])
    with closing(old), closing(new), pytest.raises(AssertionError, match=r"^before: (it logs|[A-Z]+ /)"):
        _upgrade_postgres(old, new)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_version_before_cannot_start_on_a_newer_schema(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, before: Forks, after: Forks
) -> None:
    """A process that runs goes on, one that starts is refused. The database stays as it is."""
    url = request.getfixturevalue(f"kept_{kind}")
    _migrate(Version("after", after, url, tmp_path, ADDITIVE))
    old = Version("before", before, url, tmp_path)
    with closing(old):
        assert old.start().wait() == 1
        assert re.search(
            r"The database has migration \d{4}_\w+\.sql, which this version of Paydesk does not have at that position\."
            r"\s+It belongs to another version: run that version or a newer one\.",
            old.log.read_text(),
        ), old.log.read_text()
