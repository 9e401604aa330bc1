"""From the kept version to this one: the version before goes on during a migration, and nothing of its data is lost."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import asyncpg
import pytest

from conftest import first_and_others
from forks import Forks
from paydesk_process import environment
from postgres_server import PostgresServer
from switch_process import SwitchProcess, switch
from upgrade import copied, kept, planted, selling, statements
from upgrade.versions import ADDITIVE, Client, Load, Version, next_version
from waiting import HANGS_SECONDS, wait_until

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
ROUNDS = 25
"""Orders of each client of the load between two steps."""
LIKE_THE_FIFTH = "ALTER TABLE subscriptions DROP COLUMN secret_generation"
"""The fifth migration dropped a column of the same table, which the version before it read."""
REQUIRED = """
SELECT table_name, table_name || '.' || column_name FROM information_schema.columns
 WHERE table_schema = 'public' AND is_nullable = 'NO' AND column_default IS NULL"""
CHECKS = """
SELECT CAST(conrelid AS regclass)::text, conrelid::regclass || '.' || conname || ' ' || pg_get_constraintdef(oid)
  FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace"""
TABLES = "SELECT CAST(relname AS text) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
ADMITTED: frozenset[str] = frozenset()
"""Changed constraints, as `table.name`, whose new values the version before knows already."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Forks:
    """The processes of the kept version."""
    forks, output = Forks("upgrade.before", parent="before"), tmp_path_factory.mktemp("before") / "version.txt"
    assert forks.start(("--version",), environment(), output).wait(HANGS_SECONDS) == 0
    assert output.read_text().endswith(f"({kept.commit()})\n")
    return forks


@pytest.fixture(scope="module")
def after() -> Forks:
    """The processes of this version, with a planted migration."""
    return Forks("upgrade.planted", parent="paydesk")


@pytest.fixture(scope="module")
def this() -> Forks:
    """The processes of this version, without more migrations than its own."""
    return Forks("paydesk_forked", parent="paydesk")


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """The processes of the next version: a copy of this one, with one more migration."""
    with next_version(tmp_path_factory.mktemp("following"), ADDITIVE) as forks:
        yield forks


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
    with Load(old, *map(client.trades, client.facts.tills[1:3])) as load:
        load.goes_on()
        _migrate(new)
        load.goes_on()
        old.is_ready()
        client.tries(old)
        new.serves()
        new.is_ready()
        load.add(new)
        client.tries(new)
        load.goes_on()
        client.tries(old)
        load.remove(old)
        old.ends()
    _has_everything(new, client)
    new.ends()


def _has_everything(new: Version, client: Client) -> None:
    client.finds(new)
    checked = new.run("doctor", "--invariants")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.long("it starts two versions, and migrates under load")
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
        with Load(old, *map(client.trades, client.facts.tills[1:3])) as load:
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
    with (
        closing(old),
        closing(new),
        pytest.raises(AssertionError, match=r"^before: (it (logs|is not ready)|[A-Z]+ /)"),
    ):
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


@pytest.mark.slow
def test_two_versions_go_forward_and_back(kept_postgres: str, tmp_path: Path, this: Forks, following: Forks) -> None:
    """On PostgreSQL under load: no request fails, both are ready all the time, and their answers are the same."""
    older = Version("older", this, kept_postgres, tmp_path)
    newer = Version("newer", following, kept_postgres, tmp_path)
    client = Client(kept.facts("postgres"))
    with closing(older), closing(newer):
        assert older.run("migrate").returncode == 0
        older.serves()
        with Load(older, *map(client.trades, client.facts.tills[1:3])) as load:
            load.goes_on()
            assert newer.run("migrate").stdout == f"applied {copied.NAME}\n"
            load.goes_on(ROUNDS)
            newer.serves()
            load.add(newer)
            client.compares(older, newer)
            client.tries(newer)
            client.tries(older)
            load.goes_on(ROUNDS)
            load.remove(older)
            older.ends()
            load.goes_on(ROUNDS)
            older.serves()
            load.add(older)
            client.compares(newer, older)
            client.tries(older)
            load.goes_on(ROUNDS)
            load.remove(newer)
            newer.ends()
            load.goes_on(ROUNDS)
            _finds_nothing_to_do(older)
        _has_everything(older, client)
        older.ends()


@pytest.mark.slow
def test_a_file_goes_forward_and_back(kept_sqlite: str, tmp_path: Path, this: Forks, following: Forks) -> None:
    """One process has it at a time."""
    older = Version("older", this, kept_sqlite, tmp_path)
    newer = Version("newer", following, kept_sqlite, tmp_path)
    client = Client(kept.facts("sqlite"))
    with closing(older), closing(newer):
        for version in (older, newer):
            assert version.run("migrate").returncode == 0
            _serves_for_a_while(version, client)
        _serves_for_a_while(older, client)
        _finds_nothing_to_do(older)


def _serves_for_a_while(version: Version, client: Client) -> None:
    version.serves()
    version.is_ready()
    client.tries(version)
    _has_everything(version, client)
    version.ends()


def _finds_nothing_to_do(older: Version) -> None:
    """Check that commands of a version that may run on a newer database do."""
    migrated = older.run("migrate")
    assert (migrated.returncode, copied.NAME in migrated.stdout) == (0, True), migrated.stdout
    assert "Nothing to do: the database is newer than this version" in migrated.stdout
    assert older.run("migrate", "--check").returncode == 0


@pytest.mark.parametrize("version", statements.versions())
async def test_every_statement_of_an_earlier_version_is_prepared(
    version: str, sqlite_url: str, postgres_url: str
) -> None:
    """On the schema of this one: its processes go on beside a migration. A planted one like the fifth is found."""
    connection = await asyncpg.connect(postgres_url)
    with closing(apsw.Connection(sqlite_url.removeprefix("sqlite:"))) as file:
        try:
            for planted_one, are_refused in (("SELECT 1", False), (LIKE_THE_FIFTH, True)):
                await connection.execute(planted_one)
                file.execute(planted_one)
                refused = statements.refused_by_sqlite(file, statements.of(version, "sqlite"))
                assert are_refused == bool(refused), refused
                refused = await statements.refused_by_postgres(connection, statements.of(version, "postgres"))
                assert are_refused == bool(refused), refused
                assert all("secret_generation" in reason for reason in refused.values()), refused
        finally:
            await connection.close()


async def test_the_version_before_may_write_what_it_wrote(kept_postgres: str, postgres_url: str) -> None:
    """No column of its tables has to be written that it does not know, and no constraint of them is another one.

    A constraint that admits a new value comes one release after the code that reads the value: see `ADMITTED`.
    """
    before, now = await asyncpg.connect(kept_postgres), await asyncpg.connect(postgres_url)
    try:
        tables = {table for (table,) in await before.fetch(TABLES)}
        for query in (REQUIRED, CHECKS):
            known = {text for _, text in await before.fetch(query)}
            added = {text for table, text in await now.fetch(query) if table in tables} - known
            assert {text for text in added if text.split()[0] not in ADMITTED} == set()
        await now.execute("ALTER TABLE stores ADD COLUMN till text NOT NULL CHECK (till IN ('a', 'b'))")
        for query in (REQUIRED, CHECKS):
            assert any("till" in text for _, text in await now.fetch(query))
    finally:
        await before.close()
        await now.close()


DRAINS = {"PAYDESK_DRAIN_SECONDS": "1"}
"""A balancer that asks `/readyz` has taken a node out by then."""
UNTHROTTLED = {"PAYDESK_APPLICATION_REQUESTS_PER_SECOND": "0", "PAYDESK_DEVICE_REQUESTS_PER_SECOND": "0"}


class Nodes:
    """The nodes behind a load: one joins when it is ready, another leaves, as behind a balancer."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self._url, self._folder, self._running = database_url, folder, list[Version]()
        self.load: Load | None = None

    def starts(self, name: str, forks: Forks, migration: str = "", **variables: str) -> Version:
        """Start a node and let it have requests."""
        node = Version(name, forks, self._url, self._folder, migration)
        node.variables |= {**DRAINS, **UNTHROTTLED, **variables}
        node.serves()
        self._running.append(node)
        node.is_ready()
        if self.load is not None:
            self.load.add(node)
        return node

    def ends(self, node: Version) -> None:
        """Let it have no more requests, and end it."""
        if self.load is not None:
            self.load.remove(node)
        node.ends()
        self._running.remove(node)

    def close(self) -> None:
        """Kill what still runs."""
        for node in self._running:
            node.close()


@pytest.mark.slow
def test_acquirers_are_configured_after_the_last_node_is_replaced(
    kept_postgres: str, tmp_path: Path, before: Forks, after: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sales go on at two nodes while these are replaced, get an acquirer, and another: nothing fails or differs."""
    shop = asyncio.run(selling.opened(kept_postgres, monkeypatch))
    nodes, migrates = Nodes(kept_postgres, tmp_path), Version("migrates", after, kept_postgres, tmp_path, ADDITIVE)
    with closing(nodes), switch(tmp_path, "--needs-confirmation", "--confirms-after", "3600") as host:
        one, both = (selling.acquirers_file(tmp_path, host, *names) for names in (("main",), ("main", "other")))
        running = [nodes.starts(f"old-{number}", before) for number in (1, 2)]
        with Load(running[0], shop.test.sells, shop.live.sells) as load:
            load.versions, nodes.load = running, load
            load.goes_on()
            _migrate(migrates)
            load.goes_on()
            for step, variables in {
                "new": {},
                "knows": {"PAYDESK_ACQUIRERS_FILE": one},
                "uses": {"PAYDESK_ACQUIRERS_FILE": one, "PAYDESK_ACQUIRER": "main"},
                "knows-both": {"PAYDESK_ACQUIRERS_FILE": both, "PAYDESK_ACQUIRER": "main"},
                "uses-other": {"PAYDESK_ACQUIRERS_FILE": both, "PAYDESK_ACQUIRER": "other"},
            }.items():
                for number, node in enumerate(running):
                    added = nodes.starts(f"{step}-{number}", after, ADDITIVE, **variables)
                    load.goes_on()
                    nodes.ends(node)
                    load.goes_on()
                    running = [*running[:number], added, *running[number + 1 :]]
                if step == "uses":
                    load.joins(shop.served.sells)
                    load.goes_on()
        nodes.load = None
        _has_settled(shop, host)
        checked = migrates.run("doctor", "--invariants")
        assert checked.returncode == 0, checked.stdout
        for node in running:
            nodes.ends(node)


@pytest.mark.slow
def test_an_acquirer_is_configured_when_the_file_has_its_new_version(
    kept_sqlite: str, tmp_path: Path, before: Forks, after: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SQLite file has one node: the version before ends, the new one begins, and begins again with the acquirer."""
    shop = asyncio.run(selling.opened(kept_sqlite, monkeypatch))
    nodes = Nodes(kept_sqlite, tmp_path)
    with closing(nodes), switch(tmp_path, "--needs-confirmation", "--confirms-after", "3600") as host:
        chosen = {"PAYDESK_ACQUIRERS_FILE": selling.acquirers_file(tmp_path, host, "main"), "PAYDESK_ACQUIRER": "main"}
        for name, forks, variables in (("old", before, {}), ("new", after, {}), ("configured", after, chosen)):
            if name == "new":
                _migrate(Version("migrates", after, kept_sqlite, tmp_path, ADDITIVE))
            node = nodes.starts(name, forks, ADDITIVE, **variables)
            tills = [shop.test, shop.live, *([shop.served] if variables else [])]
            with Load(node, *[till.sells for till in tills]) as load:
                load.goes_on()
            nodes.ends(node)
        node = nodes.starts("settles", after, ADDITIVE, **chosen)
        _has_settled(shop, host)
        checked = node.run("doctor", "--invariants")
        assert checked.returncode == 0, checked.stdout
        nodes.ends(node)


def _has_settled(shop: selling.Shop, host: SwitchProcess) -> None:
    """Nothing is open, no one was called, and the switch has each sale confirmed once and each refund."""
    wait_until(lambda: asyncio.run(shop.is_settled()), lambda: asyncio.run(shop.events()))
    assert asyncio.run(shop.events()) == []
    sold = len(shop.served.sold)
    assert selling.booked(host) == {"payment": sold, "confirmation": sold, "refund": (sold + 1) // 2}
