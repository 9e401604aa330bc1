"""A SQLite file: its lock, the configuration of its connections, and the meaning of its errors."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from paydesk.platform.storage.database import DatabaseInUse, DiskFull, ReadOnly, Unavailable, UnsafeDatabase

VERSION_MIN: Final = (3, 53, 0)
"""The first that can alter constraints, for later migrations. Before 3.51.3 a reset of the write-ahead log can corrupt
a database (https://sqlite.org/wal.html)."""

STATEMENTS_CACHED_MAX = 1000
CACHE_KIB = 65_536
COPIED_BYTES = 65_536
LOG_KEPT_BYTES = 16_777_216
"""A write-ahead log that grew larger, during a long read or on a full disk, is truncated to this when it is reset."""

OUT_OF_SERVICE = (
    apsw.FullError,
    apsw.IOError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoMemError,
    apsw.PermissionsError,
    apsw.LockedError,
    apsw.ProtocolError,
    apsw.InterruptError,
)
"""Errors that the work did not cause: the disk is full, broken or read-only, or the database is being closed."""

_FSYNC_FAILURES = (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC)


def out_of_service(file: Path, error: apsw.Error) -> Unavailable:
    """Return the error for the caller of a unit that could not be committed."""
    if isinstance(error, apsw.FullError):
        return DiskFull(f"{file}: {error}")
    if isinstance(error, apsw.ReadOnlyError):
        return ReadOnly("the database file can't be written to")
    return Unavailable(f"{file}: {error}")


def check_mount(file: Path) -> None:
    """Raise `ReadOnly` if the file system is mounted read-only, as Linux does after a disk error."""
    if os.statvfs(file).f_flag & os.ST_RDONLY:
        raise ReadOnly("the file system of the database is mounted read-only")


def fsync_failed(error: BaseException) -> bool:
    """Return whether an fsync failed. Writes may be lost, and a second fsync can report success, so none is made."""
    return getattr(error, "extendedresult", 0) in _FSYNC_FAILURES


def check_library(version: str) -> None:
    """Raise `UnsafeDatabase` for a SQLite library older than `VERSION_MIN`."""
    if tuple(int(part) for part in version.split(".")[:3]) < VERSION_MIN:
        needed = ".".join(str(part) for part in VERSION_MIN)
        raise UnsafeDatabase(f"SQLite {version} is too old: {needed} or newer is needed; upgrade apsw.")


def connect(file: Path, *, writer: bool) -> apsw.Connection:
    """Open a connection that syncs every commit and never waits for a lock inside the library."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE if writer else apsw.SQLITE_OPEN_READONLY
    try:
        if writer:
            _make_private(file)
        connection = apsw.Connection(str(file), flags=flags, statementcachesize=STATEMENTS_CACHED_MAX)
        # Plans depend on the statement only; otherwise SQLite plans again when a parameter changes.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        for pragma in (
            "synchronous = FULL",
            "fullfsync = ON",
            "foreign_keys = ON",
            "trusted_schema = OFF",
            "busy_timeout = 0",
            f"cache_size = -{CACHE_KIB}",
            f"journal_size_limit = {LOG_KEPT_BYTES}",
        ):
            connection.execute(f"PRAGMA {pragma}")
        if writer:
            _use_wal(connection, file)
    except apsw.Error as error:
        raise Unavailable(f"{file} cannot be opened: {error}") from error
    return connection


def renew_log(file: Path) -> None:
    """Rewrite and sync the write-ahead log that an earlier process left, before new commits follow it.

    After a failed fsync the page cache can hold pages that never reached the disk but count as clean. A later fsync
    does not write them, and after a power cut all commits behind the gap would be lost.
    """
    name = f"{file}-wal"
    if not Path(name).exists() or not file.exists():
        # SQLite deletes a log without its database.
        return
    flags = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    try:
        log = apsw.VFSFile("", name, [flags, 0])
        try:
            size = log.xFileSize()
            for offset in range(0, size, COPIED_BYTES):
                log.xWrite(log.xRead(min(COPIED_BYTES, size - offset), offset), offset)
            log.xSync(apsw.SQLITE_SYNC_FULL)
        finally:
            log.xClose()
    except apsw.Error as error:
        raise Unavailable(f"{name} cannot be written: {error}") from error


def _make_private(file: Path) -> None:
    """Create a missing file with mode 0600, whatever the umask. SQLite gives its log and index the same mode."""
    with suppress(OSError):  # It exists, or opening it fails next with the reason.
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)


def _use_wal(connection: apsw.Connection, file: Path) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchall()[0][0]
    if mode != "wal":
        connection.close()
        raise UnsafeDatabase(f"{file} cannot be used with a write-ahead log (journal mode {mode}): use a local disk.")


class FileLock:
    """A lock file that admits one process for each database; the system releases it when the process ends."""

    def __init__(self, database_file: Path) -> None:
        path = database_file.with_name(database_file.name + ".lock")
        _make_private(path)
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"{path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise DatabaseInUse(
                f"{database_file} is in use by another Paydesk process (it has locked {path}). "
                "A SQLite file serves one process: stop the other one, or use PostgreSQL."
            ) from None

    def release(self) -> None:
        """Release the lock. The lock file stays: removing it would race with the next owner."""
        os.close(self._descriptor)
