"""SQLite under fire: one commit for many, a disk that is full, a file that another process writes to or owns."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest

from conftest import skip_unless_ci
from event_loops import turns
from moved_time import advance
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import DiskFull, Locked, ReadOnly, Transaction, Unavailable, UnsafeDatabase
from paydesk.platform.storage.sqlite.database import BUSY_RETRY_SECONDS, SqliteDatabase
from paydesk.platform.storage.sqlite.file import check_library
from waiting import HANGS_SECONDS, until

T = TypeVar("T")

ADD = "INSERT INTO terminal_owners (terminal_id, seller_id) VALUES ($1, $2)"
COUNT = "SELECT COUNT(*) FROM terminal_owners"


@asynccontextmanager
async def _opened(file: Path, **options: Any) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(file, **options)
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
def file(sqlite_url: str) -> Path:
    """A fresh, migrated file."""
    return Path(sqlite_url.removeprefix("sqlite:"))


async def _add(database: SqliteDatabase, name: str, padding: int = 0) -> int:
    return await database.write(lambda tx: tx.run(ADD, name + "x" * padding, 1))


async def _count(database: SqliteDatabase) -> int:
    row = await database.read(lambda tx: tx.one(COUNT))
    assert row is not None
    return int(row[0])


def _note(notes: list[T], note: T) -> bool:
    """What a commit hook answers when it lets the commit go on."""
    notes.append(note)
    return False


async def test_many_writes_share_a_commit(file: Path) -> None:
    """Two hundred writes that wait together are two commits at most."""
    commits: list[None] = []
    async with _opened(file) as database:
        database._writer.set_commit_hook(lambda: _note(commits, None))
        await asyncio.gather(*(_add(database, f"A__{number}") for number in range(200)))
        assert await _count(database) == 200
    assert len(commits) <= 2


@pytest.mark.parametrize(
    ("failing", "runs"),
    [
        ("SELECT 1", 1),
        (ADD, 2),
        ("CREATE TABLE late (id bigint NOT NULL PRIMARY KEY)", 2),
        ("UPDATE terminal_owners SET seller_id = $2 WHERE terminal_id = $1 AND seller_id < 0", 1),
    ],
)
async def test_a_failed_work_is_rolled_back_alone(file: Path, failing: str, runs: int) -> None:
    """Its neighbours are run again only where it left something to undo, and each has its one effect and wake."""
    ran, woken = [0, 0, 0], list[str]()

    async def work(tx: Transaction, number: int) -> str:
        ran[number] += 1
        tx.notify(f"work:{number}")
        if number != 1:
            await tx.run(ADD, f"A__{number}", 1)
            return f"done {number}"
        await tx.run(failing, *(("A__1", 1) if "$2" in failing else ()))
        raise ValueError("no")

    async with _opened(file) as database:
        database.signals.listen("work:", woken.append)
        writes = (database.write(partial(work, number=number)) for number in range(3))
        first, second, third = await asyncio.gather(*writes, return_exceptions=True)
        assert (first, str(second), third) == ("done 0", "no", "done 2")
        assert ran == [runs, runs, 1]
        assert await _count(database) == 2
        assert sorted(woken) == ["work:0", "work:2"]
        late = await database.read(lambda tx: tx.one("SELECT 1 FROM sqlite_master WHERE name = 'late'"))
        assert late is None


async def test_many_failed_works_are_each_rolled_back(file: Path) -> None:
    """In one flush every second work fails after it wrote; the others are kept."""

    async def work(tx: Transaction, number: int) -> None:
        await tx.run(ADD, f"A__{number}", number)
        if number % 2:
            raise ValueError(number)

    async with _opened(file) as database:
        writes = (database.write(partial(work, number=number)) for number in range(40))
        answers = await asyncio.gather(*writes, return_exceptions=True)
        assert [answer is None for answer in answers] == [number % 2 == 0 for number in range(40)]
        kept = await database.read(lambda tx: tx.all("SELECT seller_id FROM terminal_owners ORDER BY seller_id"))
        assert [row[0] for row in kept] == list(range(0, 40, 2))


async def test_no_write_returns_before_the_commit(file: Path) -> None:
    """While the commit is under way neither who wrote nor who was refused has an answer."""

    async def refuse(tx: Transaction) -> None:
        await tx.one(COUNT)
        raise LookupError

    async with _opened(file) as database:
        writes: list[asyncio.Task[Any]] = []
        answered: list[list[bool]] = []
        database._writer.set_commit_hook(lambda: _note(answered, [write.done() for write in writes]))
        writes += [asyncio.create_task(_add(database, "A__1")), asyncio.create_task(database.write(refuse))]
        await asyncio.wait(writes)
        assert isinstance(writes[1].exception(), LookupError)
    assert answered == [[False, False]]


async def test_reads_continue_during_a_commit(file: Path) -> None:
    """A slow commit holds no read up, and a read doesn't see what isn't durable."""
    async with _opened(file) as database:
        loop = asyncio.get_running_loop()
        committing, seen = asyncio.Event(), asyncio.Event()

        def slow_commit() -> bool:
            loop.call_soon_threadsafe(committing.set)
            asyncio.run_coroutine_threadsafe(seen.wait(), loop).result(10)
            return False

        database._writer.set_commit_hook(slow_commit)
        write = asyncio.create_task(_add(database, "A__1"))
        await committing.wait()
        assert await _count(database) == 0
        assert not write.done()
        seen.set()
        await write
        assert await _count(database) == 1


async def test_a_write_canceled_before_its_flush_is_never_run(file: Path) -> None:
    """Who leaves the queue is not run; who leaves during the commit was."""
    runs = []

    async def work(_tx: Transaction) -> None:
        runs.append(1)

    async with _opened(file) as database:
        write = asyncio.create_task(database.write(work))
        await asyncio.sleep(0)
        write.cancel()
        await asyncio.wait([write])
        await _add(database, "A__1")
    assert runs == []


def _size(file: Path) -> int:
    return file.stat().st_size


async def test_the_log_is_checkpointed(file: Path) -> None:
    """The write-ahead log doesn't grow for ever, also when a reader holds it up for a while."""
    async with _opened(file) as database:
        for turn in range(30):
            await asyncio.gather(*(_add(database, f"{turn}__{number}", 4000) for number in range(200)))
        assert _size(file) > 20_000_000
        assert _size(Path(f"{file}-wal")) < 20_000_000
        assert database._checkpoint_at_pages == 1000


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_heavy_read_does_not_outlast_its_database(file: Path, is_late: bool) -> None:  # noqa: FBT001
    """Closing stops a read that would go on for hours, also one that begins then. Light reads never waited for it."""
    for_ever = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
    async with _opened(file) as database:
        reading = threading.Event()

        async def read(tx: Transaction) -> None:
            reading.set()
            if is_late:
                database._commit_thread.join()  # It ends when the database is being closed.
            await tx.one(for_ever)

        heavy = asyncio.create_task(database.read(read, heavy=True))
        await until(reading.is_set)
        assert await _add(database, "A__1") == 1
        assert await _count(database) == 1
    with pytest.raises(Unavailable):
        await heavy


async def test_every_connection_has_the_durable_settings(file: Path) -> None:
    """FULL, not NORMAL; keys are checked; nothing is trusted; nothing waits inside the library."""
    async with _opened(file) as database:
        for connection in database._open:
            pragmas = {
                name: connection.execute(f"PRAGMA {name}").fetchall()[0][0]
                for name in ("journal_mode", "synchronous", "foreign_keys", "trusted_schema", "busy_timeout")
            }
            assert pragmas == {
                "journal_mode": "wal",
                "synchronous": 2,
                "foreign_keys": 1,
                "trusted_schema": 0,
                "busy_timeout": 0,
            }


async def test_a_file_serves_one_process(file: Path) -> None:
    """A second service on a file is refused, by name; a tool that only reads is not."""
    async with _opened(file) as database:
        with pytest.raises(UnsafeDatabase, match=rf"{file} is in use"):
            await open_database(f"sqlite:{file}")
        await _add(database, "A__1")
        async with _opened(file, exclusive=False) as tool:
            assert await _count(tool) == 1
            with pytest.raises(Unavailable):
                await _add(tool, "A__2")
    async with _opened(file) as database:
        assert await _count(database) == 1


async def test_a_write_waits_for_another_process(file: Path) -> None:
    """A file that is locked for a moment is tried again; one that stays locked is `Locked`."""
    rival = apsw.Connection(str(file))
    async with _opened(file, lock_timeout_seconds=0.1) as database:
        rival.execute("BEGIN IMMEDIATE")
        with pytest.raises(Locked):
            await _add(database, "A__1")
        database._lock_timeout_seconds = 60
        write = asyncio.create_task(_add(database, "A__2"))
        for _ in range(3):
            advance(BUSY_RETRY_SECONDS)
            await turns()
        assert not write.done()
        rival.execute("COMMIT")
        assert await write == 1
        assert await _count(database) == 1
    rival.close()


async def test_a_read_only_file_is_unavailable_until_writable(file: Path) -> None:
    """All callers of a flush get the error, it is rolled back, and the next flush works."""
    async with _opened(file) as database:
        database._writer.execute("PRAGMA query_only = ON")
        answers = await asyncio.gather(*(_add(database, f"A__{n}") for n in range(3)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [ReadOnly] * 3
        database._writer.execute("PRAGMA query_only = OFF")
        assert await _add(database, "A__1") == 1
        assert await _count(database) == 1


async def test_a_file_that_cannot_grow_fails_the_whole_flush(file: Path) -> None:
    """The neighbours of a work that found no room are undone with it, and the next flush starts clean."""
    async with _opened(file) as database:
        pages = database._writer.execute("PRAGMA page_count").fetchall()[0][0]
        database._writer.execute(f"PRAGMA max_page_count = {pages}")
        # Of a statement with many rows SQLite undoes the statement alone: the transaction is the driver's to end.
        many = f"{ADD.partition('VALUES')[0]} SELECT 'B__' || value || $1, 1 FROM json_each('[1,2,3,4,5,6,7,8,9]')"
        writes = (
            _add(database, "A__1"),
            database.write(lambda tx: tx.run(many, "x" * 100_000)),
            _add(database, "A__3"),
        )
        answers = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(answer) for answer in answers] == [DiskFull] * 3
        assert await _count(database) == 0
        assert await _add(database, "A__4") == 1
        assert await _count(database) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        skip_unless_ci("A small disk can only be mounted by root.")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _enlarge(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=16m", str(folder)], check=True)


async def test_a_full_disk_is_unavailable_until_there_is_room(file: Path, small_disk: Path) -> None:
    """What was answered is kept, what was refused is not, and room on the disk is all that is needed."""
    file = Path(shutil.copy(file, small_disk))
    acknowledged: list[str] = []

    async def add(name: str) -> bool:
        try:
            await _add(database, name, 1000)
        except Unavailable:
            return False
        acknowledged.append(name)
        return True

    async with _opened(file) as database:
        for turn in range(1000):
            if not all(await asyncio.gather(*(add(f"{turn}__{number}__") for number in range(20)))):
                break
        assert 0 < len(acknowledged) < 20_000
        while await add(f"{len(acknowledged)}_full__"):
            pass
        await asyncio.to_thread(_enlarge, small_disk)
        assert await add("room__")
        kept = await database.read(lambda tx: tx.all("SELECT terminal_id FROM terminal_owners"))
        assert sorted(name.rstrip("x") for (name,) in kept) == sorted(acknowledged)
    async with _opened(file) as database:
        assert await _count(database) == len(acknowledged)


class _FailingFile(apsw.VFSFile):
    """A file on a disk that loses what it was given."""

    def xSync(self, flags: int) -> None:  # noqa: N802 - apsw's name
        if _FailingDisk.broken:
            failure = apsw.IOError("the disk lost its cache")
            failure.result = apsw.SQLITE_IOERR  # type: ignore[attr-defined] # apsw reads it
            failure.extendedresult = apsw.SQLITE_IOERR_FSYNC  # type: ignore[attr-defined] # apsw reads it
            raise failure
        super().xSync(flags)


class _FailingDisk(apsw.VFS):
    broken = False

    def __init__(self, base: str) -> None:
        super().__init__("failing", base)
        self.base = base

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - apsw's name
        return _FailingFile(self.base, name, flags)


async def test_an_fsync_that_fails_ends_the_process(file: Path) -> None:
    """The system may say that all is well the next time: there is no next time."""
    ends: list[int] = []
    previous = apsw.vfs_names()[0]
    disk = _FailingDisk(previous)
    apsw.set_default_vfs("failing")
    try:
        async with _opened(file, end_process=ends.append) as database:
            _FailingDisk.broken = True
            with pytest.raises(Unavailable):
                await _add(database, "A__1")
            assert ends == [1]
            _FailingDisk.broken = False
    finally:
        apsw.set_default_vfs(previous)
        del disk


_ADDS_FOR_EVER = """
import asyncio, itertools, sys
from pathlib import Path
from paydesk.platform.storage.sqlite.database import BUSY_RETRY_SECONDS, SqliteDatabase

async def add(database, names):
    for name in names:
        await database.write(lambda tx: tx.run("INSERT INTO terminal_owners VALUES ($1, 1)", f"A__{name}"))
        print(f"A__{name}", flush=True)

async def main():
    database, names = SqliteDatabase(Path(sys.argv[1])), itertools.count()
    await asyncio.gather(*(add(database, names) for _ in range(8)))

asyncio.run(main())
"""


async def test_acknowledged_writes_survive_a_crash(file: Path) -> None:
    """A process that is killed leaves every write that it had answered, and the next one has the file."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _ADDS_FOR_EVER, str(file), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    acknowledged = [await process.stdout.readline() for _ in range(500)]
    process.kill()
    acknowledged += (await process.communicate())[0].splitlines(keepends=True)
    async with _opened(file) as database:
        kept = {name for (name,) in await database.read(lambda tx: tx.all("SELECT terminal_id FROM terminal_owners"))}
    assert {line.decode().strip() for line in acknowledged if line.endswith(b"\n")} <= kept


async def test_a_close_waits_for_the_commit_under_way(file: Path) -> None:
    """The write is answered and what waited behind it too, then the thread ends."""
    go_on, reading = threading.Event(), threading.Event()

    def slow_commit() -> bool:
        reading.set()
        return not go_on.wait(HANGS_SECONDS)

    database = SqliteDatabase(file)
    database._writer.set_commit_hook(slow_commit)
    write = asyncio.create_task(_add(database, "A__1"))
    await until(reading.is_set)
    behind = asyncio.create_task(_add(database, "A__2"))
    await asyncio.sleep(0)
    closing = asyncio.create_task(database.close())
    await turns()
    assert not closing.done()
    go_on.set()
    assert [await write, await behind] == [1, 1]
    await closing
    assert not database._commit_thread.is_alive()
    async with _opened(file) as database:
        assert await _count(database) == 2


_ENDS_BESIDE_A_COMMIT = """
import asyncio, sys, threading
from pathlib import Path
from paydesk.platform.storage.sqlite.database import SqliteDatabase

def add(database, name):
    return database.write(lambda tx: tx.run("INSERT INTO terminal_owners VALUES ($1, 1)", name))

async def main():
    global database
    database, committing = SqliteDatabase(Path(sys.argv[1])), threading.Event()
    await add(database, "A__1")

    def slow_commit():
        committing.set()
        closed.wait()
        return False

    database._writer.set_commit_hook(slow_commit)
    task = asyncio.create_task(add(database, "A__2"))
    await asyncio.to_thread(committing.wait)

closed = threading.Event()
asyncio.run(main())
if sys.argv[2] == "committed":
    closed.set()
    database._commit_thread.join()
"""


@pytest.mark.parametrize(("commit", "kept"), [("committed", 2), ("under way", 1)])
async def test_a_process_can_end_without_a_close(file: Path, commit: str, kept: int) -> None:
    """Also beside a commit that takes for ever, or ends after the event loop; what was acknowledged is there."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _ENDS_BESIDE_A_COMMIT, str(file), commit)
    assert await asyncio.wait_for(process.wait(), HANGS_SECONDS) == 0
    async with _opened(file) as database:
        assert await _count(database) == kept


_FAILS_AFTER_A_COMMIT = """
import asyncio, sys
from pathlib import Path
from paydesk.platform.storage.sqlite.database import SqliteDatabase

async def main():
    database = SqliteDatabase(Path(sys.argv[1]))
    del database._checkpoint_at_pages  # A defect, which the thread meets after its commit.
    await database.write(lambda tx: tx.run("INSERT INTO terminal_owners VALUES ('A__1', 1)"))

asyncio.run(main())
"""


async def test_an_exception_in_the_commit_thread_ends_the_process(file: Path) -> None:
    """Without the thread every caller would wait for ever. The log says why; the next process has the file."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", _FAILS_AFTER_A_COMMIT, str(file)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await asyncio.wait_for(process.communicate(), HANGS_SECONDS))[0].decode()
    assert process.returncode == 1
    assert "commits_failed" in output
    assert "AttributeError" in output
    async with _opened(file) as database:
        assert await _count(database) == 1


@pytest.mark.parametrize("version", ["3.40.1", "3.51.3", "3.52.9"])
def test_an_old_library_is_refused(version: str) -> None:
    """SQLite before 3.53.0 is refused by its number."""
    with pytest.raises(UnsafeDatabase, match=version):
        check_library(version)


@pytest.mark.parametrize("version", ["3.53.0", "3.54.1", "4.0.0"])
def test_a_current_library_is_accepted(version: str) -> None:
    """Any from 3.53.0 on."""
    check_library(version)


@pytest.mark.parametrize("url", ["sqlite:", "sqlite::memory:", "mysql://localhost/paydesk"])
async def test_a_database_in_memory_is_refused(url: str) -> None:
    """What lives in memory is lost, and there are two kinds of database."""
    with pytest.raises(UnsafeDatabase):
        await open_database(url)


async def test_a_folder_that_does_not_exist_is_unavailable(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(Unavailable, match="missing"):
        await open_database(f"sqlite:{tmp_path}/missing/paydesk.db")


async def test_a_new_database_has_mode_0600(tmp_path: Path) -> None:
    """No other user of the machine can read the file, its log and its index."""
    database = SqliteDatabase(tmp_path / "new.db")
    await database.write(lambda tx: tx.run("CREATE TABLE t (a bigint)"))
    modes = {(tmp_path / name).stat().st_mode & 0o777 for name in ("new.db", "new.db-wal", "new.db-shm")}
    await database.close()
    assert modes == {0o600}
