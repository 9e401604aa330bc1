"""`paydesk serve` does not start with what is missing, unsafe, or for development only, and says what to do instead."""

from __future__ import annotations

import stat
from functools import partial
from pathlib import Path

import pytest

from paydesk import keys
from paydesk.keys import KeysError
from paydesk.node import StartRefused
from paydesk.serve import check_database, check_settings
from paydesk.settings import Settings
from paydesk.storage.connect import open_database
from paydesk.storage.database import Database, Transaction, UnsafeDatabase
from paydesk_process import command

GOOD = {"public_url": "https://pay.example.com"}


def test_good_settings() -> None:
    """What is refused below is refused for the one reason given there."""
    check_settings(Settings(**GOOD))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"public_url": None}, "PAYDESK_PUBLIC_URL"),
        ({"acquirer": "simulator"}, "play money"),
        ({"operator_listen": "127.0.0.1:8377"}, "listener of their own"),
    ],
)
def test_settings_that_are_refused(changes: dict[str, str | None], said: str) -> None:
    """Each is named, with what to set."""
    with pytest.raises(StartRefused, match=said):
        check_settings(Settings(**{**GOOD, **changes}))


async def test_a_database_of_development(database: Database) -> None:
    """One whose clock was moved is not fit for production: what it says has expired has not."""
    await check_database(database)
    for offset_ms, frozen_ms in ((60_000, None), (0, 1)):
        await database.write(partial(_move_clock, offset_ms=offset_ms, frozen_ms=frozen_ms))
        with pytest.raises(StartRefused, match="paydesk dev"):
            await check_database(database)


async def _move_clock(tx: Transaction, offset_ms: int, frozen_ms: int | None) -> None:
    await tx.run("DELETE FROM clock_settings")
    await tx.run(
        "INSERT INTO clock_settings (name, offset_ms, frozen_ms) VALUES ('clock', $1, $2)", offset_ms, frozen_ms
    )


async def test_a_database_without_tables(tmp_path: Path) -> None:
    """It has to be migrated first."""
    database = await open_database(f"sqlite:{tmp_path / 'new.db'}")
    with pytest.raises(StartRefused, match="run `paydesk migrate`"):
        await check_database(database)
    await database.close()


async def test_a_database_of_a_newer_version(database: Database) -> None:
    """Whoever starts anew must be of the version that the tables are of."""
    add = "INSERT INTO schema_migrations (version, name, checksum, applied_ms) VALUES (9999, '9999_next.sql', '', 0)"
    await database.write(lambda tx: tx.run(add))
    with pytest.raises(UnsafeDatabase, match=r"9999_next\.sql"):
        await check_database(database)


def test_keys_that_are_refused(tmp_path: Path) -> None:
    """There are no default keys, and none that others can read."""
    file = tmp_path / "keys.json"
    with pytest.raises(KeysError, match="paydesk keys add"):
        keys.read(file)
    keys.add(file, activate=True)
    file.chmod(stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP)
    with pytest.raises(KeysError, match="chmod 600"):
        keys.read(file)


def test_the_command_says_so(tmp_path: Path) -> None:
    """A sentence on standard error and exit code 1, no traceback."""
    ended = command("serve", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("public_url is not set")
    assert "Traceback" not in ended.stderr
    assert "--processes" in command("serve", "--help", folder=tmp_path).stdout
