"""PgBouncer in front of the tests' PostgreSQL: that of Debian 12, which is too old, and that of Debian 13."""

from __future__ import annotations

import configparser
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from free_port import free_port
from waiting import wait_until

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "deploy/proxy/pgbouncer.ini"
UNPACKED = ROOT / ".venv/pgbouncer"


def program(suite: str) -> list[str]:
    """Return the command of the PgBouncer of a Debian suite, which is unpacked once and runs with its own libraries."""
    if shutil.which("mmdebstrap") is None or os.getuid() != 0:
        pytest.skip("PgBouncer is unpacked by mmdebstrap, as root")
    folder = UNPACKED / suite
    if not folder.exists():
        UNPACKED.mkdir(parents=True, exist_ok=True)
        unfinished = UNPACKED / f"{suite}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        options = ["--quiet", "--variant=extract", "--include=pgbouncer"]
        subprocess.run(["mmdebstrap", *options, suite, str(unfinished)], check=True)
        unfinished.rename(folder)
    loader = next(path for path in folder.rglob("ld-linux-*.so.*") if path.exists())
    libraries = {str(path.parent) for path in folder.rglob("*.so.*") if "gconv" not in path.parts}
    return [str(loader), "--library-path", ":".join(sorted(libraries)), str(folder / "usr/sbin/pgbouncer")]


@contextmanager
def pgbouncer(suite: str, database_url: str, **changes: str) -> Iterator[str]:
    """Run PgBouncer with the example's settings and `changes`; yield the URL of the database behind it."""
    parts = urlsplit(database_url)
    query = parse_qs(parts.query)
    sockets = Path(query["host"][0])
    name, port, owner = parts.path[1:], free_port(), sockets.stat()
    config = configparser.ConfigParser(interpolation=None)
    config.read(EXAMPLE)
    config["databases"] = {name: f"host={sockets} port={query.get('port', ['5432'])[0]} dbname={name}"}
    with tempfile.TemporaryDirectory(prefix="paydesk-pgbouncer-") as made:
        folder = Path(made)
        config["pgbouncer"].update(
            listen_addr="127.0.0.1",
            listen_port=str(port),
            unix_socket_dir="",
            auth_type="trust",
            auth_file=str(folder / "userlist.txt"),
            **changes,
        )
        if suite == "bookworm":
            # A setting that it does not know yet.
            del config["pgbouncer"]["max_prepared_statements"]
        (folder / "userlist.txt").write_text('"paydesk" ""\n')
        with (folder / "pgbouncer.ini").open("w") as file:
            config.write(file)
        # It does not run as root, and only the user of PostgreSQL reaches its socket.
        os.chown(folder, owner.st_uid, owner.st_gid)
        with (folder / "pgbouncer.log").open("w+") as log:
            command = [*program(suite), str(folder / "pgbouncer.ini")]
            process = subprocess.Popen(command, stderr=log, user=owner.st_uid, group=owner.st_gid)
            try:
                wait_until(lambda: _listens(port) or process.poll() is not None)
                assert process.poll() is None, Path(log.name).read_text()
                yield f"postgresql://paydesk@127.0.0.1:{port}/{name}"
            finally:
                process.kill()
                process.wait()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False
