"""A private PostgreSQL server for a run, from the tests' wheel, with default settings and every fsync."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from postgres_server import PostgresServer  # type: ignore[import-not-found, unused-ignore]

SERVICE_CONNECTIONS = 100
"""Connections besides pgbench's: those of the service, of oidc-provider and of the server itself."""

LOG_SEGMENTS = 40
"""About 40 s of creates; must be below `max_wal_size`, or the segments are removed."""


class Postgres:
    """A running server, until `end`."""

    def __init__(self, clients_max: int) -> None:
        self._server = PostgresServer.start()
        self._server.sql(f"ALTER SYSTEM SET max_connections = {clients_max + SERVICE_CONNECTIONS}")
        self._restart()
        for name in ("fsync", "full_page_writes", "synchronous_commit"):
            assert self._server.sql(f"SHOW {name}") == "on", f"{name} is off: nothing would be durable"

    def _restart(self) -> None:
        process = self._postmaster()
        process.send_signal(signal.SIGINT)
        process.wait(30)
        self._server.resume()

    def _postmaster(self) -> Any:
        return self._server._server.get_postmaster_info().process  # noqa: SLF001 - the tests' server keeps it for itself

    @property
    def pid(self) -> int:
        """Return the process id of the postmaster, the parent of all other processes."""
        pid: int = self._postmaster().pid
        return pid

    @property
    def version(self) -> str:
        """Return the server's version."""
        return str(self._server.sql("SHOW server_version"))

    def program(self, name: str) -> Path:
        """Return the path of a program of the same installation."""
        return Path(self._server._server.bin_path) / name  # noqa: SLF001 - the tests' server keeps it for itself

    def create_database(self, name: str) -> str:
        """Create a database and return its URL."""
        return str(self._server.create_database(name))

    def rows(self, url: str, query: str) -> list[Any]:
        """Return the rows of a query as JSON objects."""
        wrapped = f"SELECT COALESCE(json_agg(q), '[]') FROM ({query}) AS q"
        rows: list[Any] = json.loads(self.run(url, wrapped))
        return rows

    def run(self, url: str, statement: str) -> str:
        """Run one statement in a database and return psql's output."""
        psql = [str(self.program("psql")), "-XqAt", "-v", "ON_ERROR_STOP=1", url, "-c", statement]
        finished = subprocess.run(psql, check=False, capture_output=True, text=True)
        assert finished.returncode == 0, finished.stderr
        printed: str = finished.stdout.strip()
        return printed

    def settle(self, url: str) -> None:
        """Run the maintenance that seeding leaves, and provide write-ahead log segments to recycle.

        A server that has run for a while recycles segments; a new one creates each, and every commit waits for 16 MB of
        zeros.
        """
        self.run(url, "VACUUM ANALYZE")
        for _ in range(LOG_SEGMENTS):
            self._server.sql("SELECT pg_logical_emit_message(false, 'bench', ''), pg_switch_wal()")
        self._server.sql("CHECKPOINT")

    def end(self) -> None:
        """Shut down and remove the data."""
        self._server.end()
