"""`paydesk migrate` and what it would do, and older commands on a newer database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from command_line import command
from paydesk import __version__
from paydesk.platform.storage import plan as plans
from paydesk.platform.storage.migrate import Migration, shipped
from paydesk.platform.storage.plan import effect
from paydesk.platform.storage.sqlite.file import FileLock
from tables import each

LAST = shipped()[-1]
NEXT = """
INSERT INTO schema_migrations (version, name, checksum, applied_ms, runs_with)
VALUES (9999, '9999_next.sql', '', 0, ?)"""


def _change(file: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement, values)


def test_pending_migrations_are_named_and_nothing_is_changed(sqlite_url: str, tmp_path: Path) -> None:
    """For scripts the exit code says it; a service may have the file meanwhile."""
    file = tmp_path / "paydesk.db"
    variables = {"PAYDESK_DATABASE_URL": sqlite_url}
    done = command("migrate", "--check", folder=tmp_path, **variables)
    assert (done.returncode, done.stdout) == (0, "The database is up to date.\n")
    _change(file, "DELETE FROM schema_migrations WHERE version = ?", LAST.version)
    lock = FileLock(file)
    try:
        for options in (("--check",), ("--check", "--plan")):
            checked = command("migrate", *options, folder=tmp_path, **variables)
            assert (checked.returncode, LAST.name in checked.stdout) == (1, True)
            assert "Pending migrations: 1. Run `paydesk migrate`." in checked.stderr
        planned = command("migrate", "--plan", folder=tmp_path, **variables)
        assert planned.returncode == 0
        assert (
            f"pending {LAST.name}: in one transaction; {LAST.runs_with} and newer versions run with it\n"
            in planned.stdout
        )
        assert "  ALTER TABLE deliveries ADD COLUMN trace text\n    blocks deliveries for a moment\n" in planned.stdout
        document = json.loads(command("migrate", "--plan", "--json", folder=tmp_path, **variables).stdout)
    finally:
        lock.release()
    (one,) = document["pending"]
    assert (one["name"], one["in_transaction"], document["newer"]) == (LAST.name, True, [])
    assert len(one["statements"]) == len(LAST.statements)


def test_a_plan_says_what_runs_outside_a_transaction() -> None:
    """An index that is built while others write."""
    script = "-- runs with 0.2.0\nCREATE INDEX CONCURRENTLY orders_by_till ON orders (till)"
    assert "\n".join(plans.as_lines(plans.plan([Migration(9001, "9001_index.sql", script)]))) == (
        "pending 9001_index.sql: outside a transaction on PostgreSQL; 0.2.0 and newer versions run with it\n"
        "  CREATE INDEX CONCURRENTLY orders_by_till ON orders (till)\n"
        "    blocks nothing while it reads orders"
    )


@each(
    "sql, says",
    [
        ("CREATE TABLE IF NOT EXISTS tills (till text)", "blocks nothing: the table is new"),
        ("CREATE UNIQUE INDEX a ON orders (b)", "blocks writes to orders while it reads all its rows"),
        ("ALTER TABLE orders ADD CONSTRAINT a CHECK (b > 0) NOT VALID", "blocks orders for a moment"),
        ("ALTER TABLE orders ADD CONSTRAINT a CHECK (b > 0)", "blocks orders while it reads all its rows"),
        ("UPDATE orders SET a = 1", "locks the rows of orders that it changes"),
        ("DROP TABLE IF EXISTS tills", "blocks tills for a moment"),
        ("SELECT 1", ""),
    ],
)
def test_a_plan_says_what_a_statement_blocks(sql: str, says: str) -> None:
    """Of PostgreSQL; a file has one process."""
    assert effect(sql) == says


def test_an_index_of_a_new_table_blocks_nothing() -> None:
    """The migration that makes the table fills it."""
    script = "-- runs with 0.2.0\nCREATE TABLE tills (till text);\nCREATE INDEX tills_by_name ON tills (till)"
    (one,) = plans.plan([Migration(9001, "9001_table.sql", script)])
    assert [statement["effect"] for statement in one["statements"]] == ["blocks nothing: the table is new"] * 2


def test_every_shipped_statement_has_an_effect() -> None:
    """So the plan of no release is silent about one."""
    planned = plans.plan(shipped())
    assert [one["sql"] for file in planned for one in file["statements"] if not one["effect"]] == []


def test_older_commands_run_on_a_newer_database(sqlite_url: str, tmp_path: Path) -> None:
    """If its migrations permit that; `migrate` says so."""
    variables = {"PAYDESK_DATABASE_URL": sqlite_url}
    _change(tmp_path / "paydesk.db", NEXT, __version__)
    for arguments in (("migrate",), ("migrate", "--check"), ("migrate", "--plan")):
        migrated = command(*arguments, folder=tmp_path, **variables)
        assert (migrated.returncode, migrated.stdout) == (
            0,
            "Nothing to do: the database is newer than this version, which may run on it (9999_next.sql).\n",
        )
    assert json.loads(command("migrate", "--json", folder=tmp_path, **variables).stdout)["newer"] == ["9999_next.sql"]
    for used in (("doctor", "--invariants"), ("operators", "create", "--name", "ana")):
        assert command(*used, folder=tmp_path, **variables).returncode == 0
    _change(tmp_path / "paydesk.db", "UPDATE schema_migrations SET runs_with = '999.0.0' WHERE version = 9999")
    for wanted in (("migrate",), ("migrate", "--check"), ("doctor",), ("operators", "create", "--name", "bo")):
        refused = command(*wanted, folder=tmp_path, **variables)
        assert (refused.returncode, "run 999.0.0 or a newer version" in refused.stderr) == (1, True), wanted
