"""`paydesk serve --wait-for-database` starts beside its database, or beside the migration."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from command_line import command
from paydesk.platform.storage.migrate import shipped
from postgres_server import PostgresServer
from serve_process import ServeProcess
from waiting import HANGS_SECONDS

LAST = shipped()[-1]


def test_serve_waits_until_the_file_is_migrated(tmp_path: Path) -> None:
    """The file does not even exist, and the wait does not keep it from `paydesk migrate`."""
    url = f"sqlite:{tmp_path / 'later.db'}"
    serve = ServeProcess(url, tmp_path, "--wait-for-database")
    try:
        process = serve.start()
        (line, *_) = serve.wait_for("waiting_for_database", 1)
        assert "does not exist" in line["reason"]
        assert 50 <= line["seconds_left"] <= 60
        assert command("migrate", folder=tmp_path, PAYDESK_DATABASE_URL=url).returncode == 0
        serve.wait_for("listening", 1)
        serve.end(process)
    finally:
        serve.close()


def test_processes_wait_until_the_database_is_there(
    postgres_server: PostgresServer, migrated_postgres: str, tmp_path: Path
) -> None:
    """The parent waits, before it starts the first one."""
    serve = ServeProcess(
        postgres_server.url("later"), tmp_path, "--wait-for-database", "300", "--processes", "1", shared=True
    )
    try:
        process = serve.start()
        (line, *_) = serve.wait_for("waiting_for_database", 1)
        assert "does not exist" in line["reason"]
        postgres_server.create_database("later", migrated_postgres)
        serve.wait_for("process_ready", 1)
        serve.end(process)
    finally:
        serve.close()
        postgres_server.drop_database("later")


def test_serve_is_refused_when_the_time_is_over(sqlite_url: str, tmp_path: Path) -> None:
    """With the same message as without waiting."""
    with closing(sqlite3.connect(tmp_path / "paydesk.db")) as connection, connection:
        connection.execute("DELETE FROM schema_migrations WHERE version = ?", (LAST.version,))
    serve = ServeProcess(sqlite_url, tmp_path, "--wait-for-database", "1")
    try:
        assert serve.start().wait(HANGS_SECONDS) == 1
        log = serve.log.read_text()
        assert log.count(f"The database lacks {LAST.name}: run `paydesk migrate`.") >= 2, log
    finally:
        serve.close()
