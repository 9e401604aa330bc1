"""A database that takes no writes, read-only or full: the node is not ready, with the reason, until it takes them."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import skip_unless_ci
from faults.full_disk import DISK_MEGABYTES, CannotMount, small_disk
from paydesk.core.clock import SystemClock
from paydesk.platform.health import readiness as health
from paydesk.platform.health.readiness import Readiness
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import DiskFull
from paydesk.platform.storage.postgres.database import PostgresDatabase
from postgres_server import PostgresServer
from service import KEYS, Service, running
from waiting import HANGS_SECONDS

ADD = "INSERT INTO terminal_owners (terminal_id, seller_id) VALUES ($1, 1)"


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a database more time than a busy machine needs: here each one answers."""
    monkeypatch.setattr(health, "ANSWER_SECONDS", HANGS_SECONDS)


async def test_postgresql_whose_transactions_are_read_only(postgres_server: PostgresServer, postgres_url: str) -> None:
    """Not ready with the reason as soon as the server says so, on connections that are open too; then ready again."""
    database = await open_database(postgres_url)
    async with running(database, workers=False) as service:
        order, free = (await service.create(await service.terminal())).body, await service.terminal()
        assert await _until(service, 200) == []
        postgres_server.configure(default_transaction_read_only="on")
        try:
            assert await _until(service, 503) == ["database: read-only: default_transaction_read_only is on"]
            refused = await service.create(free)
            assert (refused.status, refused.body["message"]) == (503, "The database is read-only; nothing was done.")
            assert (await service.get(order["id"])) == order
        finally:
            postgres_server.sql("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
        assert await _until(service, 200) == []
    await database.close()


async def test_a_standby_is_read_only(postgres_server: PostgresServer, postgres_url: str) -> None:
    """A node that finds a standby where the primary was is not ready, and says why."""
    with postgres_server.standby() as folder:
        database = PostgresDatabase(f"{postgres_url.partition('?')[0]}?host={folder}")
        # The standby follows a moment later, and does not know the database before that.
        async with asyncio.timeout(HANGS_SECONDS):
            while (details := await _details(database)) == ("database: unreachable",):  # noqa: ASYNC110 - it gives no sign
                await asyncio.sleep(0.05)
        await database.close()
    assert details == ("database: read-only: This PostgreSQL is a standby; the primary is needed.",)


async def _details(database: PostgresDatabase) -> tuple[str, ...]:
    refusal = await Readiness(database, KEYS, SystemClock()).refusal()
    return refusal.details if refusal is not None else ()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk."""
    try:
        with small_disk(tmp_path / "disk") as folder:
            yield folder
    except CannotMount as error:
        skip_unless_ci(str(error))


async def test_a_disk_that_is_mounted_read_only(disk: Path, migrated_file: Path) -> None:
    """As Linux mounts it after an error: not ready at once, before a write has failed."""
    file = shutil.copy(migrated_file, disk / "paydesk.db")
    database = await open_database(f"sqlite:{file}")
    readiness = Readiness(database, KEYS, SystemClock())
    assert await readiness.refusal() is None
    # A file system with open files can't be made read-only as a whole: a second mount of it over the first can.
    _as_root("mount", "--bind", disk, disk)
    _as_root("mount", "-o", "remount,bind,ro", disk)
    readiness._started -= 1
    refusal = await readiness.refusal()
    _as_root("umount", disk)
    assert refusal is not None
    assert refusal.details == ("database: read-only: the file system of the database is mounted read-only",)
    readiness._started -= 1
    assert await readiness.refusal() is None
    await database.close()


def _as_root(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


async def test_a_disk_that_is_full(disk: Path, migrated_file: Path) -> None:
    """Not ready once a write has failed for want of room, and ready again when a page can be written."""
    file = shutil.copy(migrated_file, disk / "paydesk.db")
    database = await open_database(f"sqlite:{file}")
    readiness = Readiness(database, KEYS, SystemClock())
    with pytest.raises(OSError, match="No space left"):
        (disk / "ballast").write_bytes(bytes(DISK_MEGABYTES << 20))
    with pytest.raises(DiskFull):
        await database.write(lambda tx: tx.run(ADD, "A__" + "x" * 1_000_000))
    for _ in range(2):
        readiness._started -= 1
        refusal = await readiness.refusal()
        assert refusal is not None
        assert refusal.details == ("database: the disk is full",)
    (disk / "ballast").unlink()
    readiness._started -= 1
    assert await readiness.refusal() is None
    await database.close()


async def _until(service: Service, status: int) -> list[str]:
    async with asyncio.timeout(HANGS_SECONDS):
        while (reply := await service.request("GET", "/readyz")).status != status:  # noqa: ASYNC110 - it gives no sign
            await asyncio.sleep(0.05)
    return reply.details if status == 503 else []
