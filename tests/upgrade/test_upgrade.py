"""From the kept version to this one: the version before goes on during a migration, and nothing of its data is lost."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from conftest import first_and_others
from forks import Forks
from paydesk_process import environment
from postgres_server import PostgresServer
from switch_process import SwitchProcess, switch
from upgrade import kept, planted, selling
from upgrade.versions import Client, Load, Version
from waiting import HANGS_SECONDS, wait_until

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
def before(tmp_path_factory: pytest.TempPathFactory) -> Forks:
    """The processes of the kept version."""
    forks, output = Forks("upgrade.before", parent="before"), tmp_path_factory.mktemp("before") / "version.txt"
    assert forks.start(("--version",), environment(), output).wait(HANGS_SECONDS) == 0
    assert output.read_text().endswith(f"({kept.commit()})\n")
    return forks


@pytest.fixture(scope="module")
def after() -> Forks:
    """The processes of this version."""
    return Forks("upgrade.planted", parent="paydesk")


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
            self.load.versions = [*self.load.versions, node]
        return node

    def ends(self, node: Version) -> None:
        """Let it have no more requests, and end it."""
        if self.load is not None:
            self.load.versions = [one for one in self.load.versions if one is not node]
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
