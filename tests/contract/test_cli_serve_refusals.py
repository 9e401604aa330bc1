"""`paydesk serve` does not start with what is missing, unsafe, or for development only, and says what to do instead."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from command_line import command
from paydesk import __version__
from paydesk.core import keys
from paydesk.core.keys import KeysError
from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage import mark
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction, UnsafeDatabase
from paydesk.service.serve import check_database, check_files, check_settings
from tables import each

NOW_MS = 1_800_000_000_000
OPENS_A_DATABASE = """
import asyncio, os, sys
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.migrate import migrate

async def run():
    await migrate(await open_database("sqlite:new.db"), 1)
    os._exit(0)

os.umask(int(sys.argv[1], 8))
asyncio.run(run())
"""
"""It ends without closing the database, so that all of its files stay."""
NEXT = """
INSERT INTO schema_migrations (version, name, checksum, applied_ms, runs_with)
VALUES (9999, '9999_next.sql', '', 0, $1)"""
GOOD = {"public_url": "https://pay.example.com"}


def test_good_settings() -> None:
    """The settings are valid, so each refusal below has the one given reason."""
    check_settings(Settings(**GOOD))


@each(
    "changes, said",
    [
        ({"public_url": None}, "PAYDESK_PUBLIC_URL"),
        ({"public_url": "http://pay.example.com"}, "sent unencrypted"),
        ({"public_url": "http://10.1.2.3:8377"}, "sent unencrypted"),
        ({"public_url": "http://localhost.example.com"}, "sent unencrypted"),
        ({"operator_public_url": "http://console.example.com"}, "PAYDESK_OPERATOR_PUBLIC_URL"),
        ({"operator_public_url": "http://10.1.2.3:8378"}, "sent unencrypted"),
        ({"acquirer": "simulator"}, "no money would be charged"),
        ({"operator_listen": "127.0.0.1:8377"}, "separate listener"),
        ({"operator_listen": "10.1.2.3:8378", "operator_public_url": None}, "PAYDESK_OPERATOR_PUBLIC_URL"),
    ],
)
def test_settings_that_are_refused(changes: dict[str, str | None], said: str) -> None:
    """The message names the setting and what to set."""
    with pytest.raises(StartRefused, match=said):
        check_settings(Settings(**{**GOOD, **changes}))


@pytest.mark.on_postgres
async def test_a_database_of_development(database: Database) -> None:
    """A database whose clock was moved is refused: its expiry times are wrong."""
    for offset_ms, frozen_ms in ((60_000, None), (0, 1)):
        await database.write(partial(_move_clock, offset_ms=offset_ms, frozen_ms=frozen_ms))
        with pytest.raises(StartRefused, match="paydesk dev"):
            await check_database(database, NOW_MS)
    assert await mark.find(database) is None


async def _move_clock(tx: Transaction, offset_ms: int, frozen_ms: int | None) -> None:
    await tx.run("DELETE FROM clock_settings")
    await tx.run(
        "INSERT INTO clock_settings (name, offset_ms, frozen_ms) VALUES ('clock', $1, $2)", offset_ms, frozen_ms
    )


async def test_a_database_without_tables(tmp_path: Path) -> None:
    """It must be migrated first."""
    database = await open_database(f"sqlite:{tmp_path / 'new.db'}")
    with pytest.raises(StartRefused, match="run `paydesk migrate`"):
        await check_database(database, NOW_MS)
    await database.close()


@pytest.mark.on_postgres
async def test_a_database_of_a_newer_version(database: Database) -> None:
    """An older node than the tables starts if it may run on them, and is refused otherwise."""
    await database.write(lambda tx: tx.run(NEXT, __version__))
    await check_database(database, NOW_MS)
    await database.write(lambda tx: tx.run("UPDATE schema_migrations SET runs_with = '999.0.0' WHERE version = 9999"))
    with pytest.raises(UnsafeDatabase, match=r"9999_next\.sql, .* run 999\.0\.0 or a newer version"):
        await check_database(database, NOW_MS)


@each("host", ["127.0.0.1:8377", "127.8.9.10", "localhost", "LocalHost:80", "[::1]:8377"])
def test_http_on_loopback(host: str) -> None:
    """A loopback URL needs no TLS."""
    check_settings(Settings(public_url=f"http://{host}"))


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", ".lock"])
async def test_files_that_others_may_read(ending: str, sqlite_url: str, tmp_path: Path) -> None:
    """Each is named in the message, with the command that mends it."""
    settings = Settings(**GOOD, database_url=sqlite_url)
    database = await open_database(sqlite_url)
    check_files(settings)
    file = tmp_path / f"paydesk.db{ending}"
    for mode in (0o640, 0o604, 0o620, 0o602):
        file.chmod(mode)
        with pytest.raises(StartRefused, match=f"chmod 600 {re.escape(str(file))}$"):
            check_files(settings)
    file.chmod(0o600)
    check_files(settings)
    await database.close()


@each("mode", [0o770, 0o702, 0o1777, 0o722], ids=oct)
def test_a_folder_that_others_may_write_to(sqlite_url: str, tmp_path: Path, mode: int) -> None:
    """They could replace the file; it is found behind a link too."""
    link = tmp_path.with_name(f"{tmp_path.name}-link")
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path)
    for url in (sqlite_url, f"sqlite:{link / 'paydesk.db'}"):
        settings = Settings(**GOOD, database_url=url)
        tmp_path.chmod(mode)
        with pytest.raises(StartRefused, match=f"chmod go-w .*{re.escape(str(tmp_path))}"):
            check_files(settings)
        tmp_path.chmod(0o755)
        check_files(settings)


def test_serve_refuses_files_that_others_may_read(sqlite_url: str, tmp_path: Path) -> None:
    """The command says so before it opens the database."""
    assert command("keys", "add", folder=tmp_path).returncode == 0
    (tmp_path / "paydesk.db").chmod(0o644)
    variables = {"PAYDESK_DATABASE_URL": sqlite_url, "PAYDESK_PUBLIC_URL": "https://pay.example.com"}
    refused = command("serve", folder=tmp_path, **variables)
    assert refused.returncode == 1
    assert f"chmod 600 {tmp_path / 'paydesk.db'}" in refused.stderr


@pytest.mark.parametrize("umask", ["0000", "0022", "0777"])
def test_new_files_are_private(umask: str, tmp_path: Path) -> None:
    """Whatever the umask, also the log, its index and the lock."""
    subprocess.run([sys.executable, "-c", OPENS_A_DATABASE, umask], cwd=tmp_path, check=True)
    found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("new.db*")}
    assert found == dict.fromkeys(("new.db", "new.db-wal", "new.db-shm", "new.db.lock"), 0o600)


def test_serve_refuses_a_weak_key(sqlite_url: str, tmp_path: Path) -> None:
    """A key file that was written by hand is named, with the version."""
    file = tmp_path / "paydesk.keys.json"
    file.touch(0o600)
    file.write_text(json.dumps({"active": 1, "keys": {"1": "00" * 32}}))
    variables = {"PAYDESK_DATABASE_URL": sqlite_url, "PAYDESK_PUBLIC_URL": "https://pay.example.com"}
    refused = command("serve", folder=tmp_path, **variables)
    assert refused.returncode == 1
    assert "paydesk.keys.json: the server key of version 1 is not random" in refused.stderr


def test_keys_that_are_refused(tmp_path: Path) -> None:
    """There are no default keys, and none that others can read."""
    file = tmp_path / "keys.json"
    with pytest.raises(KeysError, match="paydesk keys add"):
        keys.read(file)
    keys.add(file, activate=True)
    file.chmod(stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP)
    with pytest.raises(KeysError, match="chmod 600"):
        keys.read(file)


def test_the_command_prints_the_refusal(tmp_path: Path) -> None:
    """A sentence on standard error and exit code 1, no traceback."""
    ended = command("serve", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    started, refusal, *_ = ended.stderr.splitlines()
    assert '"event":"starting"' in started
    assert refusal.startswith("public_url is not set")
    assert "Traceback" not in ended.stderr
    assert "--processes" in command("serve", "--help", folder=tmp_path).stdout
